"""fairseq's translation task with the search of :mod:`fairseq_rope.generator`."""

from typing import Any

from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from .generator import FastSequenceGenerator


@register_task("fast_translation", dataclass=TranslationConfig)
class FastTranslationTask(TranslationTask):
    """``translation`` with the same options, data and hypotheses, decoded faster."""

    def build_generator(self, models: Any, args: Any, seq_gen_cls: Any = None, **kwargs: Any) -> SequenceGenerator:
        if seq_gen_cls is None and not getattr(args, "print_alignment", False):
            seq_gen_cls = FastSequenceGenerator
        return super().build_generator(models, args, seq_gen_cls=seq_gen_cls, **kwargs)
