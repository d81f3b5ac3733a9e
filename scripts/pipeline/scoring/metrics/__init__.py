"""The metrics: one function, and one line of the registry for each."""

from functools import partial
from math import inf
from typing import Any, Dict, Mapping

from sacrebleu.metrics import CHRF

from .base import Entry, Metric, Texts, entry
from .bleu import moses_bleu, standard_bleu
from .documents import length_ratio, right_segments, segment_bleu
from .labels import LABELS

FAIRSEQ = "bleu_fairseq_training_tokens"

METRICS: Dict[str, Metric] = {
    "sacrebleu": Metric(
        "sacreBLEU",
        "BLEU of 13a tokens, raw reference: compares across tool chains",
        lambda texts: entry(standard_bleu(texts.lang), texts.hypotheses, texts.references),
    ),
    "bleu_moses": Metric("moses", "BLEU of Moses tokens of both sides", moses_bleu),
    "bleu_moses_compound_split": Metric(
        "moses+split", "the same with a-b split, as papers on WMT14 have it", partial(moses_bleu, splits=True)
    ),
    "chrf": Metric("chrF2", "character n-grams", lambda texts: entry(CHRF(), texts.hypotheses, texts.references)),
    "bleu_moses_lowercase": Metric(
        "moses lc", "as moses, lower-cased, as papers on Multi30k have it", partial(moses_bleu, lowercase=True)
    ),
    FAIRSEQ: Metric("fairseq", "BLEU of fairseq-generate, on the tokens as trained: inflated like moses+split"),
    "length_ratio": Metric(
        "length", "sacreBLEU's tokens of the documents, in percent of the references'", length_ratio, best=100
    ),
    "right_segments": Metric("segments", "documents that keep the segments of each block, in percent", right_segments),
    "segment_bleu": Metric(
        "by segment", "sacreBLEU of the segments in blocks that keep their number of segments", segment_bleu
    ),
    "perplexity": Metric("perplexity", "2 to the power of the loss in bits per token", best=-inf),
    "bits_per_byte": Metric(
        "bits/byte", "bits of all tokens by bytes of the text", best=-inf, digits=3, in_report=True
    ),
    **LABELS,
    "loss": Metric("loss", "bits per token that the model predicts", best=-inf, digits=3),
}
"""By the key in JSON files. A recipe's systems are ranked by the first one that its first test set has."""


def score(texts: Texts) -> Dict[str, Entry]:
    """The entry of each metric of translations that the language has, by its key."""
    scores = {key: metric.score(texts) for key, metric in METRICS.items()}
    return {key: entry for key, entry in scores.items() if entry is not None}


def first_metric(scores: Mapping[str, Any]) -> str:
    """The key of the figure that stands for a test set: the first one that it has."""
    return next(key for key in METRICS if key in scores)


__all__ = ["FAIRSEQ", "METRICS", "Metric", "Texts", "first_metric", "score"]
