"""The kinds of models whose training steps are measured, each against fairseq's own model, criterion and optimizer."""

from dataclasses import dataclass
from typing import Any, Dict, Sequence, Tuple

from fairseq.data import Dictionary

from .batch import make_batch, make_blocks, make_examples

TEXT_LENGTH = 512
"""Tokens of a block, as BERT and both papers have them."""

TEXT = (
    *("--adam-betas", "(0.9, 0.999)", "--adam-eps", "1e-6", "--weight-decay", "0.01", "--clip-norm", "1.0"),
    *("--lr-scheduler", "polynomial_decay", "--total-num-update", "1000000"),
    *("--warmup-updates", "10000", "--lr", "1e-4"),
)
"""What ``scripts/train.sh`` gives all language models."""


@dataclass(frozen=True)
class Kind:
    """One kind of models."""

    task: str
    """As fairseq calls it."""
    stock: str
    """fairseq's own ``ARCH:CRITERION:OPTIMIZER``."""
    criterion: str
    """This plugin's."""
    archs: Sequence[str]
    """The default candidates."""
    flags: Tuple[str, ...]
    """What ``scripts/train.sh`` gives all architectures."""
    length: int = TEXT_LENGTH
    """Tokens of each sentence; 0: lengths like those of WMT."""
    counted: str = "source tokens"
    """The tokens of a batch by which rates are given."""

    def batch(self, words: Dictionary, tokens: int, sentences: int, length: int) -> Dict[str, Any]:
        """A batch as the task receives it, always the same; see :func:`~.batch.choose_lengths`."""
        length = length or self.length
        if self.task == "translation":
            return make_batch(words, tokens, sentences, length)
        if self.task == "sentence_prediction":
            return make_examples(words, tokens, sentences, length)
        return make_blocks(words, tokens, sentences, length, masked=self.task == "masked_lm")


KINDS: Dict[str, Kind] = {
    kind.task: kind
    for kind in (
        Kind(
            "translation",
            "transformer_wmt_en_de:label_smoothed_cross_entropy:adam",
            "fused_label_smoothed_cross_entropy",
            ("transformer_sinusoidal_base", "roformer_base"),
            (
                *("--share-all-embeddings", "--clip-norm", "0.0", "--label-smoothing", "0.1"),
                *("--adam-betas", "(0.9, 0.98)", "--lr-scheduler", "inverse_sqrt", "--warmup-init-lr", "1e-7"),
                *("--warmup-updates", "4000", "--lr", "5e-4"),
            ),
            length=0,
            counted="target tokens",
        ),
        Kind(
            "masked_lm",
            "fairseq_transformer_mlm_base:masked_lm:adam",
            "fused_masked_lm",
            ("transformer_learned_mlm_base", "roformer_mlm_base"),
            TEXT,
        ),
        Kind(
            "sentence_prediction",
            "fairseq_transformer_mlm_base:sentence_prediction:adam",
            "sentence_prediction",
            ("transformer_learned_mlm_base", "roformer_mlm_base"),
            (*TEXT, "--num-classes", "2", "--max-positions", "512"),
            length=0,
        ),
        Kind(
            "language_modeling",
            "fairseq_transformer_lm_base:cross_entropy:adam",
            "fused_label_smoothed_cross_entropy",
            ("transformer_sinusoidal_lm_base", "roformer_lm_base"),
            (*TEXT, "--share-decoder-input-output-embed"),
        ),
    )
}
"""By fairseq's name of the task."""
