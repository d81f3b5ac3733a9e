"""fairseq's translation task with the search of :mod:`fairseq_rope.decoding.generator`, and without lost sentences."""

from dataclasses import dataclass, field
from typing import Any, Optional

from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from .generator import SEGMENTS, FastSequenceGenerator


@dataclass
class FastTranslationConfig(TranslationConfig):
    bf16_weights: bool = field(
        default=False, metadata={"help": "translate with parameters in bfloat16: half as many bytes to read"}
    )
    unpacked_weights: bool = field(
        default=False, metadata={"help": "multiply with the decoder's own weights, not with copies in a faster layout"}
    )
    segment_separator: str = field(
        default="",
        metadata={
            "help": "the token between segments, <sep> in data of prepare.sh: the n-th segment of a translation then "
            "attends to the n-th of the source alone, and it has as many segments"
        },
    )


@register_task("fast_translation", dataclass=FastTranslationConfig)
class FastTranslationTask(TranslationTask):
    """fairseq's task ``translation`` with the same options, data and hypotheses, but faster decoding.

    If the size of a set is not a multiple of ``--required-batch-size-multiple`` (default 8), fairseq drops the longest
    sentences, up to 7. This task keeps them for generation and validation, and leaves training as it is.

    Raises:
        ValueError: ``--bf16-weights`` together with ``--eval-bleu``: it would change the model in training.
    """

    training_set: Any = None
    target_tag: Optional[int] = None
    """The token with which translations begin, of a model of several languages."""

    separator = ""
    """The value of ``--segment-separator`` if the configuration is another task's."""

    def load_dataset(self, split: str, epoch: int = 1, combine: bool = False, **kwargs: Any) -> None:
        super().load_dataset(split, epoch=epoch, combine=combine, **kwargs)
        if combine and split == self.cfg.train_subset:  # only fairseq's trainer joins the pieces of this set
            self.training_set = self.datasets[split]

    def get_batch_iterator(self, dataset: Any, *args: Any, **options: Any) -> Any:
        if dataset is not self.training_set:
            options["required_batch_size_multiple"] = 1
        return super().get_batch_iterator(dataset, *args, **options)

    def build_generator(self, models: Any, args: Any, seq_gen_cls: Any = None, **kwargs: Any) -> SequenceGenerator:
        if getattr(self.cfg, "bf16_weights", False):
            if self.cfg.eval_bleu:
                raise ValueError("--bf16-weights cannot be combined with --eval-bleu: it changes the model")
            for model in models:
                model.bfloat16()
        if seq_gen_cls is None and not getattr(args, "print_alignment", False):
            seq_gen_cls = FastSequenceGenerator
        generator: SequenceGenerator = super().build_generator(models, args, seq_gen_cls=seq_gen_cls, **kwargs)
        separator = getattr(self.cfg, "segment_separator", "") or self.separator
        if isinstance(generator, FastSequenceGenerator):
            generator.packs_weights = not getattr(self.cfg, "unpacked_weights", False)
            generator.target_tag = self.target_tag
            if separator:
                generator.separators = (self._index(separator, "source"), self._index(separator, "target"))
        elif separator:
            raise ValueError(f"{SEGMENTS} does not go with --print-alignment and other searches: leave one out")
        return generator

    def _index(self, separator: str, side: str) -> int:
        """The number of the separator in a dictionary; raises ValueError if it has none of its own."""
        words: Any = getattr(self, f"{side}_dictionary")
        if words.indices.get(separator, 0) < words.nspecial:
            raise ValueError(f"{SEGMENTS}: the {side}'s dictionary has no token {separator}: train on documents")
        return int(words.index(separator))
