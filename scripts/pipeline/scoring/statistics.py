"""BLEU's sufficient statistics, sentence by sentence, and the figures that follow from them without the text.

The statistics are sacrebleu's for the usual tokens of the language, one reference; so are the arithmetic and the
resampling: figures and intervals are the ones that ``sacrebleu REFERENCE -i BASELINE SYSTEM --paired-bs`` prints for
the text. Our p has two sides. It needs no fairseq.
"""

import math
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

DEVIATIONS = 100
"""How often each sample of sentences draws how trainings deviate."""

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
class Spread:
    """How much BLEU varies over trainings of one system, which differ in their seed, on one test set.

    Two trainings err in different sentences. So part of this variance is that of the sentences drawn, and a bootstrap
    over sentences has this part already.
    """

    squares: float = 0.0
    """Of the deviations from the mean, in BLEU on all sentences: their sum."""
    by_sentences: float = 0.0
    """The part of it that the sentences explain."""
    freedom: int = 0
    """Degrees of freedom: trainings minus one."""


def spread(scores: Sequence[float], resampled: Sequence[Samples]) -> Spread:
    """Of the trainings of one system, from their BLEU and their :func:`resampled_bleu`."""
    squares = np.square(np.subtract(scores, np.mean(scores))).sum()
    explained = np.subtract(resampled, np.mean(resampled, axis=0)).var(axis=1).sum()
    return Spread(float(squares) if squares > 1e-9 else 0.0, float(explained), len(scores) - 1)  # rounding of the mean


def pooled(spreads: Sequence[Spread]) -> Tuple[float, float, int]:
    """The variance of a training on average over systems, the part that the sentences explain, and its freedom."""
    freedom = sum(each.freedom for each in spreads)
    return (
        sum(each.squares for each in spreads) / freedom,
        sum(each.by_sentences for each in spreads) / freedom,
        freedom,
    )


def draw_variances(spreads: Sequence[Spread], count: int, numbers: np.random.Generator) -> List[Samples]:
    """For each of the first two systems, ``count`` variances that its trainings may have, ``(count,)``.

    Few trainings estimate a variance poorly, and systems do not all vary alike. As in the model of the moderated t test
    (Smyth, Statistical Applications in Genetics and Molecular Biology 3(1), 2004), the variances of the systems come
    from one scaled inverse chi-squared distribution, so the more alike they look, the more does each system learn from
    the others. Its scale and its degrees of freedom d are drawn from their posterior. The prior is flat in the
    logarithm of the scale, and in sqrt(2 / d) from 0.1 to 1.4: for large d, the deviation of the variances' logarithm.
    The limit 1.4, for variances that differ most, is an assumption.
    """
    varied = np.array([(each.squares, each.freedom) for each in spreads if each.squares])
    squares, freedom = varied.T[..., None, None]  # (systems, 1, 1)
    d = 2 / np.arange(0.1, 1.45, 0.1)[:, None] ** 2  # (14, 1)
    scales = squares.sum() / freedom.sum() * np.exp(np.linspace(-6, 6, 61))  # (61,)
    gamma = np.vectorize(math.lgamma)
    constant = gamma((d + freedom) / 2) - gamma(d / 2)  # (systems, 14, 1)
    fit = constant + d / 2 * np.log(d * scales) - (d + freedom) / 2 * np.log(d * scales + squares)
    likelihood = np.exp((fit := fit.sum(axis=0)) - fit.max())  # (14, 61)
    cells = numbers.choice(likelihood.size, count, p=likelihood.ravel() / likelihood.sum())
    rows, columns = np.unravel_index(cells, likelihood.shape)
    own, scale = d[rows, 0], scales[columns]  # (count,)
    return [(own * scale + each.squares) / numbers.chisquare(own + each.freedom) for each in spreads[:2]]


def hierarchical_bootstrap(
    one: Sequence[Samples], other: Sequence[Samples], difference: float, spreads: Sequence[Spread] = ()
) -> Tuple[float, Tuple[float, float]]:
    """How sure a difference in BLEU is, over sentences and over trainings.

    Each of 1,000 samples draws sentences, and :data:`DEVIATIONS` times how far the two means over trainings deviate,
    which it adds with both signs. The variance of a mean is that of a training beyond the sentences, divided by their
    number.

    Args:
        one, other: :func:`resampled_bleu` of each training of two systems.
        difference: of the two means, on all sentences.
        spreads: of the trainings of these two systems, then of others; if none varies, sentences alone are drawn.

    Returns:
        The p value, two-sided: how often a sample is at least as far from the middle as the difference is from 0. And
        the middle 95% of the samples.
    """
    numbers = np.random.default_rng(SEED)
    samples = np.mean(one, axis=0) - np.mean(other, axis=0)
    middle = samples.mean()
    if any(each.squares for each in spreads):
        samples, typical = np.repeat(samples, DEVIATIONS), pooled(spreads)[1]
        of_mean = np.zeros(len(samples))
        for variance, known, trainings in zip(draw_variances(spreads, len(samples), numbers), spreads, (one, other)):
            explained = known.by_sentences / known.freedom if known.freedom else typical
            of_mean += np.maximum(0, variance - explained) / len(trainings)
        deviation = np.sqrt(of_mean) * numbers.standard_normal(len(samples))
        samples = np.concatenate([samples + deviation, samples - deviation])  # few of such heavy tails are skewed
    as_far = int((np.abs(samples - middle) >= abs(difference)).sum())
    low, high = np.percentile(samples, (2.5, 97.5))
    return (as_far + 1) / (len(samples) + 1), (float(low), float(high))
