"""Systems against a baseline on one test set: order, differences and how sure they are, lengths.

If systems of a recipe have several seeds, they tell how much a seed changes, and a bootstrap draws both sentences and
trainings. Else it draws sentences alone, and finds differences between two trainings of one system too often.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, List, Optional, Sequence, Tuple

from ..scoring.kinds import METRICS
from ..scoring.scored import BLEU
from ..scoring.statistics import (
    BUCKETS,
    SAMPLES,
    SEED,
    SeedVariance,
    by_length,
    hierarchical_bootstrap,
    resampled_bleu,
    rows,
    seed_variance,
)
from .kinds import Kind
from .systems import System, mean

LEVEL = 0.05
"""A difference is significant if p is below this."""


@dataclass(frozen=True)
class Difference:
    """A system's mean score minus the baseline's, and how sure that is."""

    own: Tuple[float, ...]
    others: Tuple[float, ...]
    """The scores of the trainings of both; without a test over trainings, those of the common seeds, in one order."""
    p: Optional[float] = None  # None for a metric without a test
    range: Optional[Tuple[float, float]] = None  # the middle 95% of the test's samples; without a test, that over seeds
    sign: int = 1  # of an improvement
    signature: str = ""  # of the test
    over_trainings: bool = False  # whether the test knows how much trainings differ
    common: bool = False  # whether it is over the common seeds alone, and others are left out

    @property
    def means(self) -> Tuple[float, float]:
        """Of the other system's scores, and of its own."""
        return mean(self.others), mean(self.own)

    @property
    def value(self) -> float:
        other, own = self.means
        return own - other

    @property
    def better(self) -> bool:
        return self.sign * self.value > 0

    @property
    def one_way(self) -> bool:
        """Whether the difference has one direction with every seed."""
        gaps = [own - other for own, other in zip(self.own, self.others)]
        return min(gaps) > 0 or max(gaps) < 0

    @property
    def significant(self) -> bool:
        return self.p is not None and self.p < LEVEL

    @property
    def verdict(self) -> str:
        if self.p is None:
            return "not tested"
        if not self.significant:
            return "neither better nor worse"
        return "better" if self.better else "worse"


def ranking_metric(systems: Sequence[System], test: str, default: str = BLEU) -> str:
    """The first metric that some system has on a test set."""
    return next((key for key in METRICS if any(system.scores(test, key) for system in systems)), default)


def ranked(systems: Sequence[System], test: str, metric: str) -> List[System]:
    """The systems by their score on a test set, best first; those without a score come last."""

    def key(system: System) -> Tuple[bool, float, str, str]:
        scores = system.scores(test, metric)
        worth = METRICS[metric].sign * mean(scores.values()) if scores else 0.0
        return not scores, -worth, *system.label

    return sorted(systems, key=key)


def choose_baseline(
    systems: Sequence[System], arch: Optional[str] = None, baselines: Sequence[str] = Kind().baselines
) -> Optional[System]:
    """The named system; else the first of the usual baselines, in the size that most systems have; else the first.

    It chooses a variant only if there is nothing else, and of several settings the one that most others have. None if
    nothing was run, or if the named system was not run.
    """
    trained = [system for system in systems if system.runs]
    run = sorted(trained, key=lambda system: (bool(system.variant), -sum(system.is_beside(other) for other in trained)))
    if arch is not None:
        return next((system for system in run if system.arch == arch), None)

    for name in baselines:
        usual = [system for system in run if system.arch.startswith(name) and not system.variant]
        if usual:
            endings = {system: system.arch[len(name) - 1 :] for system in usual}
            return max(usual, key=lambda system: sum(other.arch.endswith(endings[system]) for other in run))
    return next(iter(run), None)


class Comparison:
    """Compares the systems of a recipe by one metric.

    Args:
        systems: all of them: how much their trainings differ tells how sure each difference is.
    """

    def __init__(self, systems: Sequence[System], metric: str = BLEU) -> None:
        self.systems, self.metric = systems, metric

    def difference(self, system: System, other: System, test: str) -> Optional[Difference]:
        """The difference of one system to another.

        It is over all trainings where it is known how much they differ, and else over the common seeds; None if there
        are none.
        """
        scores, others = (each.scores(test, self.metric) for each in (system, other))
        tested = self.metric == BLEU and any(entry["sentences"] > 1 for entry in system.tests(test).values())
        variance = self.seed_variance(test) if tested else None  # one sentence is always drawn again
        left_out = not variance and scores.keys() != others.keys()
        if not variance:
            common = [seed for seed in scores if seed in others]
            scores, others = ({seed: known[seed] for seed in common} for known in (scores, others))
        if not scores or not others:
            return None
        own, theirs = tuple(scores.values()), tuple(others.values())
        p, middle, signature = None, None, ""
        if tested:
            one = [_resampled(system, test, seed) for seed in scores]
            two = [_resampled(other, test, seed) for seed in others]
            p, middle = hierarchical_bootstrap(one, two, mean(own) - mean(theirs), variance)
            drawn = f"sentences and trainings|{variance}" if variance else "sentences"
            signature = f"{drawn}|n:{SAMPLES}|seed:{SEED}"
        elif len(own) > 1:
            gaps = [one - two for one, two in zip(own, theirs)]
            middle = min(gaps), max(gaps)
        sign = METRICS[self.metric].sign
        return Difference(own, theirs, p, middle, sign, signature, bool(variance), left_out)

    def seed_variance(self, test: str) -> Optional[SeedVariance]:
        """How much BLEU varies over seeds on a test set, by all systems with several; None without such a system."""
        known = {system: system.scores(test, self.metric) for system in self.systems}
        several = {system: scores for system, scores in known.items() if len(scores) > 1}
        resampled = ([_resampled(system, test, seed) for seed in scores] for system, scores in several.items())
        return seed_variance([list(scores.values()) for scores in several.values()], list(resampled))


@cache
def _resampled(system: System, test: str, seed: int) -> Any:
    return resampled_bleu(rows(system.tests(test)[seed]["statistics"]))


def length_table(systems: Sequence[System], test: str) -> List[Tuple[str, int, List[Optional[float]]]]:
    """BLEU by source length: for each range with sentences, its name, their number, and each system's BLEU, the mean
    over seeds."""
    tables = []
    for system in systems:
        known = [entry["statistics"] for entry in system.tests(test).values() if BLEU in entry["scores"]]
        tables.append([by_length(statistics) for statistics in known])
    sizes = next((runs[0] for runs in tables if runs), [])
    return [
        (
            f"{first}-{last}" if last else f"over {first - 1}",
            sentences,
            [mean(run[i][1] for run in runs) if runs else None for runs in tables],
        )
        for i, ((first, last), (sentences, _)) in enumerate(zip(BUCKETS, sizes))
        if sentences
    ]
