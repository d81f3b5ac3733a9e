"""BLEU's sufficient statistics, sentence by sentence, and the figures that follow from them without the text.

The statistics are sacrebleu's for the usual tokens of the language, one reference; so are the arithmetic and the paired
bootstrap: the figures are the ones that ``sacrebleu REFERENCE -i BASELINE SYSTEM --paired-bs`` prints for the text. It
needs no fairseq.
"""

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
from sacrebleu.metrics import BLEU

ORDER = 4
"""Longest n-gram."""

COLUMNS = ("source_words", "hyp_len", "ref_len", *(f"correct{n}" for n in range(1, ORDER + 1)))
"""Source length in words (separated by spaces); tokens of hypothesis and reference; n-grams that match."""

BUCKETS = ((1, 10), (11, 20), (21, 30), (31, 40), (41, 50), (51, 75), (76, 100), (101, None))
"""Source lengths in words, from and to."""

SAMPLES, SEED = 1000, 12345
"""Of the bootstrap, as sacrebleu has them."""

ROUNDED = 0.0051
"""How far a figure with two decimals may be from the exact one: half of the last digit, plus the error of floats."""

Columns = Mapping[str, Sequence[int]]
Rows = List[List[int]]
Samples = Any
"""An array with BLEU of each sample, ``(SAMPLES,)``."""


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
    return float(BLEU()._aggregate_and_compute(sentences).score)


def by_length(statistics: Columns) -> List[Tuple[List[int], float]]:
    """For each of :data:`BUCKETS`, the source words of its sentences and their BLEU (0.0 without sentences)."""
    pairs = list(zip(statistics["source_words"], rows(statistics)))
    buckets = []
    for first, last in BUCKETS:
        chosen = [pair for pair in pairs if max(pair[0], 1) >= first and (last is None or pair[0] <= last)]
        buckets.append(([words for words, _ in chosen], bleu([row for _, row in chosen]) if chosen else 0.0))
    return buckets


def resampled_bleu(sentences: Rows) -> Samples:
    """BLEU of 1,000 samples of the sentences, as many each; of one test set the same samples for every system."""
    metric, numbers, table = BLEU(), np.random.default_rng(SEED), np.array(sentences, dtype=float)
    count = len(table)
    times_drawn = (np.bincount(numbers.integers(0, count, count), minlength=count) for _ in range(SAMPLES))
    totals = ((times @ table).astype(int).tolist() for times in times_drawn)
    return np.array([metric._compute_score_from_stats(total).score for total in totals])


@dataclass(frozen=True)
class SeedVariance:
    """How much BLEU varies over trainings of one system, which differ in their seed, on one test set.

    Two trainings err in different sentences. So part of this variance is that of the sentences drawn, and a bootstrap
    over sentences has this part already.
    """

    total: float
    """Of BLEU on all sentences."""
    by_sentences: float
    """The part of it that the sentences explain."""
    freedom: int
    """Degrees of freedom of the total: trainings minus systems."""

    def __str__(self) -> str:
        return f"variance:{self.total:.3f}|by sentences:{self.by_sentences:.3f}|freedom:{self.freedom}"

    def drawn(self, numbers: np.random.Generator) -> Samples:
        """What trainings vary by beyond the sentences, for each sample, ``(SAMPLES,)``.

        Few trainings estimate the total poorly. So each sample draws one: the sum of squares divided by a chi-squared
        number.
        """
        total = self.total * self.freedom / numbers.chisquare(self.freedom, SAMPLES)
        return np.maximum(0, total - self.by_sentences)


def seed_variance(scores: Sequence[Sequence[float]], resampled: Sequence[Sequence[Samples]]) -> Optional[SeedVariance]:
    """The variance over seeds, pooled over systems: all are taken to vary alike.

    Args:
        scores: BLEU of the trainings of each system.
        resampled: :func:`resampled_bleu` of the same trainings.

    Returns:
        None if no system has several trainings.
    """
    freedom = sum(len(trainings) - 1 for trainings in scores)
    if not freedom:
        return None
    squares = sum(np.square(np.subtract(trainings, np.mean(trainings))).sum() for trainings in scores)
    explained = sum(np.subtract(samples, np.mean(samples, axis=0)).var(axis=1).sum() for samples in resampled)
    return SeedVariance(float(squares / freedom), float(explained / freedom), freedom)


def hierarchical_bootstrap(
    one: Sequence[Samples], other: Sequence[Samples], difference: float, variance: Optional[SeedVariance]
) -> Tuple[float, Tuple[float, float]]:
    """How sure a difference in BLEU is, over sentences and over trainings.

    Each of 1,000 samples draws sentences, and for each training a normal deviation, which it adds to its BLEU, and once
    more with the other sign.

    Args:
        one, other: :func:`resampled_bleu` of each training of two systems.
        difference: of the two means, on all sentences.
        variance: over trainings; None: sentences alone are drawn.

    Returns:
        The p value, two-sided: how often a sample is at least as far from the middle as the difference is from 0. And
        the middle 95% of the samples.
    """
    numbers = np.random.default_rng(SEED)
    samples = np.mean(one, axis=0) - np.mean(other, axis=0)
    middle = samples.mean()
    if variance:
        of_mean = variance.drawn(numbers) * (1 / len(one) + 1 / len(other))
        deviation = np.sqrt(of_mean) * numbers.standard_normal(SAMPLES)
        samples = np.concatenate([samples + deviation, samples - deviation])  # few of such heavy tails are skewed
    as_far = int((np.abs(samples - middle) >= abs(difference)).sum())
    low, high = np.percentile(samples, (2.5, 97.5))
    return (as_far + 1) / (len(samples) + 1), (float(low), float(high))
