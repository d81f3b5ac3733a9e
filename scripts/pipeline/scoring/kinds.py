"""The metrics: their names, the better direction, and how to read them. It imports nothing from this package."""

from typing import Any, Dict, Mapping, NamedTuple

FAIRSEQ = "bleu_fairseq_training_tokens"


class Metric(NamedTuple):
    """One figure of a test set."""

    name: str
    reading: str
    higher_is_better: bool = True
    digits: int = 2
    """Decimals to show."""

    @property
    def arrow(self) -> str:
        """The direction that is better."""
        return "↑" if self.higher_is_better else "↓"

    @property
    def sign(self) -> int:
        """The factor that turns a difference into an improvement."""
        return 1 if self.higher_is_better else -1


METRICS: Dict[str, Metric] = {
    "sacrebleu": Metric("sacreBLEU", "BLEU of 13a tokens, raw reference: compares across tool chains"),
    "bleu_moses": Metric("moses", "BLEU of Moses tokens of both sides"),
    "bleu_moses_compound_split": Metric("moses+split", "the same with a-b split, as papers on WMT14 have it"),
    "chrf": Metric("chrF2", "character n-grams"),
    "bleu_moses_lowercase": Metric("moses lc", "as moses, lower-cased, as papers on Multi30k have it (41.0)"),
    FAIRSEQ: Metric("fairseq", "BLEU of fairseq-generate, on the tokens as trained: inflated like moses+split"),
    "perplexity": Metric("perplexity", "2 to the power of the loss in bits per token", higher_is_better=False),
    "bits_per_byte": Metric("bits/byte", "bits of all tokens by bytes of the text", higher_is_better=False, digits=3),
    "matthews": Metric("Matthews", "correlation of predicted and true classes, in percent"),
    "f1": Metric("F1", "of the positive class, in percent"),
    "accuracy": Metric("accuracy", "predicted classes that are right, in percent"),
    "pearson": Metric("Pearson", "correlation of predicted and true numbers, in percent"),
    "spearman": Metric("Spearman", "correlation of their ranks, in percent"),
    "loss": Metric("loss", "bits per token that the model predicts", higher_is_better=False, digits=3),
}
"""By the key in JSON files. A recipe's systems are ranked by the first one that its first test set has."""

TRANSLATION = tuple(METRICS)[:6]
"""Those that ``scripts/score.sh`` computes."""


def first_metric(scores: Mapping[str, Any]) -> str:
    """The key of the figure that stands for a test set: the first one that it has."""
    return next(key for key in METRICS if key in scores)
