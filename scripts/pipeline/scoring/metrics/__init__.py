"""The metrics: one class in one file and one line of the registry for each."""

from typing import Any, Dict, Mapping

from .base import Metric, Texts
from .bleu import MosesBLEU, StandardBLEU
from .chrf import ChrF
from .documents import LengthRatio, RightSegments, SegmentBLEU
from .labels import LABELS

FAIRSEQ = "bleu_fairseq_training_tokens"

METRICS: Dict[str, Metric] = {
    "sacrebleu": StandardBLEU("sacreBLEU", "BLEU of 13a tokens, raw reference: compares across tool chains"),
    "bleu_moses": MosesBLEU("moses", "BLEU of Moses tokens of both sides"),
    "bleu_moses_compound_split": MosesBLEU(
        "moses+split", "the same with a-b split, as papers on WMT14 have it", splits=True
    ),
    "chrf": ChrF("chrF2", "character n-grams"),
    "bleu_moses_lowercase": MosesBLEU(
        "moses lc", "as moses, lower-cased, as papers on Multi30k have it", lowercase=True
    ),
    FAIRSEQ: Metric("fairseq", "BLEU of fairseq-generate, on the tokens as trained: inflated like moses+split"),
    "length_ratio": LengthRatio("length", "words of the documents, each a line, in percent of the references'"),
    "right_segments": RightSegments("segments", "documents that keep their number of segments, in percent"),
    "segment_bleu": SegmentBLEU("by segment", "sacreBLEU of the segments in blocks that keep their number of segments"),
    "perplexity": Metric("perplexity", "2 to the power of the loss in bits per token", higher_is_better=False),
    "bits_per_byte": Metric(
        "bits/byte", "bits of all tokens by bytes of the text", higher_is_better=False, digits=3, in_report=True
    ),
    **LABELS,
    "loss": Metric("loss", "bits per token that the model predicts", higher_is_better=False, digits=3),
}
"""By the key in JSON files. A recipe's systems are ranked by the first one that its first test set has."""


def score(texts: Texts) -> Dict[str, Dict[str, Any]]:
    """``score`` (0 to 100), ``signature`` and ``detail`` of each metric of translations that the language has.

    Raises:
        Failure: a package is missing.
    """
    scores = {key: metric.score(texts) for key, metric in METRICS.items()}
    return {key: entry for key, entry in scores.items() if entry is not None}


def first_metric(scores: Mapping[str, Any]) -> str:
    """The key of the figure that stands for a test set: the first one that it has."""
    return next(key for key in METRICS if key in scores)


__all__ = ["FAIRSEQ", "METRICS", "Metric", "Texts", "first_metric", "score"]
