"""Systems against a baseline on one test set: order, differences, sacrebleu's paired bootstrap, lengths."""

from dataclasses import dataclass
from functools import cache
from typing import Dict, List, Optional, Sequence, Tuple

from ..scoring.kinds import METRICS
from ..scoring.statistics import BUCKETS, by_length, interval, paired_bootstrap, rows
from .kinds import Kind
from .systems import System, mean

BLEU = "sacrebleu"
"""The metric with statistics of sentences, and so the one with p values."""

LEVEL = 0.05
"""A difference is significant if p is below this with every seed."""


@dataclass(frozen=True)
class Difference:
    """A system's score minus the baseline's, and the p value, for each common seed."""

    by_seed: Dict[int, float]
    p: Dict[int, float]  # empty for a metric without a test
    sign: int = 1  # of an improvement
    means: Tuple[float, float] = (0.0, 0.0)  # of the other system's scores, and of its own
    signature: str = ""  # of the test

    @property
    def value(self) -> float:
        return mean(self.by_seed.values())

    @property
    def better(self) -> bool:
        return self.sign * self.value > 0

    @property
    def one_way(self) -> bool:
        """Whether the difference has one direction with every seed."""
        return min(self.by_seed.values()) > 0 or max(self.by_seed.values()) < 0

    @property
    def significant(self) -> bool:
        """Whether the difference is significant with every seed, and in one direction."""
        return bool(self.p) and self.one_way and all(p < LEVEL for p in self.p.values())

    @property
    def verdict(self) -> str:
        if not self.p:
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

    It chooses a variant only if there is nothing else. None if nothing was run, or if the named system was not run.
    """
    run = sorted((system for system in systems if system.runs), key=lambda system: bool(system.variant))
    if arch is not None:
        return next((system for system in run if system.arch == arch), None)

    for name in baselines:
        usual = [system for system in run if system.arch.startswith(name) and not system.variant]
        if usual:
            endings = {system: system.arch[len(name) - 1 :] for system in usual}
            return max(usual, key=lambda system: sum(other.arch.endswith(endings[system]) for other in run))
    return next(iter(run), None)


def difference(system: System, other: System, test: str, metric: str = BLEU) -> Optional[Difference]:
    """The difference of one system to another; None if they have no seed in common."""
    scores, others = system.scores(test, metric), other.scores(test, metric)
    common = [seed for seed in scores if seed in others]
    if not common:
        return None
    one, two = sorted((system, other), key=lambda each: each.label)  # p is the same in either direction
    tested = {seed: _bootstrap(one, two, test, seed) for seed in common if metric == BLEU}
    return Difference(
        {seed: scores[seed] - others[seed] for seed in common},
        {seed: p for seed, (p, _) in tested.items()},
        METRICS[metric].sign,
        (mean(others[seed] for seed in common), mean(scores[seed] for seed in common)),
        next((signature for _, signature in tested.values()), ""),
    )


@cache
def _bootstrap(one: System, two: System, test: str, seed: int) -> Tuple[float, str]:
    """The p value of two systems, and the signature of its test."""
    first, second = (rows(system.tests(test)[seed]["statistics"]) for system in (one, two))
    p_values, signature = paired_bootstrap(first, {"second": second})
    return p_values["second"], signature


def certainty(system: System, other: System, test: str, metric: str = BLEU) -> Optional[Tuple[float, float]]:
    """The range of a difference over seeds; with one seed, the 95% interval of the bootstrap, if there is one."""
    found = difference(system, other, test, metric)
    if found is None:
        return None
    if len(found.by_seed) > 1:
        return min(found.by_seed.values()), max(found.by_seed.values())
    if not found.p:
        return None
    (seed,) = found.by_seed
    one, two = (rows(each.tests(test)[seed]["statistics"]) for each in (system, other))
    return interval(one, two)


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
