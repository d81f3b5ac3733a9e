"""BLEU's sufficient statistics, sentence by sentence, and the figures that follow from them without the text.

The statistics are sacrebleu's for the usual tokens of the language, one reference; so are the arithmetic and the paired
bootstrap: the figures are the ones that ``sacrebleu REFERENCE -i BASELINE SYSTEM --paired-bs`` prints for the text. It
needs no fairseq.
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

ORDER = 4
"""Longest n-gram."""

COLUMNS = ("source_words", "hyp_len", "ref_len", *(f"correct{n}" for n in range(1, ORDER + 1)))
"""Source length in words (separated by spaces); tokens of hypothesis and reference; n-grams that match."""

BUCKETS = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 50), (51, 75), (76, 100), (101, None))
"""Source lengths in words, from and to."""

Columns = Mapping[str, Sequence[int]]
Rows = List[List[int]]


class StatisticsBLEU(BLEU):
    """sacrebleu's BLEU, given the statistics of each sentence in place of the sentences."""

    def __init__(self) -> None:
        super().__init__()
        self.num_refs = 1

    def _extract_corpus_statistics(self, hypotheses: Any, references: Any) -> Any:
        return hypotheses


def columns(
    sources: Sequence[str], hypotheses: Sequence[str], references: Sequence[str], metric: Optional[BLEU] = None
) -> Dict[str, List[int]]:
    """The statistics of :data:`COLUMNS`, for raw source, detokenised hypothesis and raw reference of each sentence.

    Args:
        metric: sacrebleu's BLEU with its tokeniser; None: 13a.
    """
    rows = (metric or BLEU())._extract_corpus_statistics(hypotheses, [references])
    words = [len(source.split()) for source in sources]
    return dict(zip(COLUMNS, [words, *([int(row[i]) for row in rows] for i in range(len(COLUMNS) - 1))]))


def rows(statistics: Columns) -> Rows:
    """The statistics in sacrebleu's form, with the numbers of n-grams, which follow from the length."""
    stored = zip(*(statistics[name] for name in COLUMNS[1:]))
    return [[*row, *(max(0, row[0] - n) for n in range(ORDER))] for row in stored]


def bleu(sentences: Rows) -> float:
    """BLEU (0 to 100) of these sentences as one corpus."""
    return float(StatisticsBLEU()._aggregate_and_compute(sentences).score)


def by_length(statistics: Columns) -> List[Tuple[int, float]]:
    """For each of :data:`BUCKETS`, the number of its sentences and their BLEU (0.0 without sentences)."""
    pairs = list(zip(statistics["source_words"], rows(statistics)))
    buckets = []
    for first, last in BUCKETS:
        chosen = [row for words, row in pairs if max(words, 1) >= first and (last is None or words <= last)]
        buckets.append((len(chosen), bleu(chosen) if chosen else 0.0))
    return buckets


def paired_bootstrap(baseline: Rows, systems: Mapping[str, Rows]) -> Tuple[Dict[str, float], str]:
    """sacrebleu's paired bootstrap of BLEU, with 1,000 samples and its seed.

    Returns:
        p value of each system's difference to the baseline, and the signature of the test.
    """
    named: Any = [("baseline", baseline), *systems.items()]
    test = PairedTest(named, {"BLEU": StatisticsBLEU()}, references=None, test_type="bs")
    signatures, scores = test()
    results: Any = scores["BLEU"][1:]
    return {name: float(result.p_value) for name, result in zip(systems, results)}, str(signatures["BLEU"])


def interval(one: Rows, other: Rows) -> Tuple[float, float]:
    """The middle 95% of the difference in BLEU, ``one - other``, over 1,000 samples of the sentences."""
    metric, numbers = StatisticsBLEU(), np.random.default_rng(12345)
    sides = [np.array(side) for side in (one, other)]
    differences = []
    for _ in range(1000):
        chosen = numbers.integers(0, len(one), len(one))
        scores = [metric._compute_score_from_stats(side[chosen].sum(axis=0).tolist()).score for side in sides]
        differences.append(scores[0] - scores[1])
    low, high = np.percentile(differences, (2.5, 97.5))
    return float(low), float(high)
