"""Systems against a baseline on one test set: order, differences, sacrebleu's paired bootstrap, lengths."""

from dataclasses import dataclass
from typing import Any, Dict, FrozenSet, List, Optional, Sequence, Tuple

from ..scoring.kinds import METRICS
from ..scoring.statistics import BUCKETS, by_length, paired_bootstrap, rows
from .systems import Label, System, mean

SINUSOIDAL = "transformer_sinusoidal_"
BLEU = "sacrebleu"
"""The metric that statistics of sentences are kept of, and so the one with p values."""

LEVEL = 0.05
"""A difference is called significant if p is below, with every seed."""


@dataclass(frozen=True)
class Difference:
    """A system's score minus the baseline's, and the p value, with each of their common seeds."""

    by_seed: Dict[int, float]
    p: Dict[int, float]  # empty for a metric without a test
    sign: int = 1  # of an improvement

    @property
    def value(self) -> float:
        return mean(self.by_seed.values())

    @property
    def better(self) -> bool:
        return self.sign * self.value > 0

    @property
    def significant(self) -> bool:
        """With every seed, and in one direction."""
        one_way = min(self.by_seed.values()) > 0 or max(self.by_seed.values()) < 0
        return bool(self.p) and one_way and all(p < LEVEL for p in self.p.values())

    @property
    def verdict(self) -> str:
        if not self.significant:
            return "neither better nor worse"
        return "better" if self.better else "worse"


def ranking_metric(systems: Sequence[System], test: str) -> str:
    """The first metric that some system has on a test set."""
    return next((key for key in METRICS if any(system.scores(test, key) for system in systems)), BLEU)


def ranked(systems: Sequence[System], test: str, metric: str) -> List[System]:
    """The best on a test set first, those without it last."""

    def key(system: System) -> Tuple[bool, float, str, str]:
        scores = system.scores(test, metric)
        worth = METRICS[metric].sign * mean(scores.values()) if scores else 0.0
        return not scores, -worth, *system.label

    return sorted(systems, key=key)


def choose_baseline(systems: Sequence[System], arch: Optional[str] = None) -> Optional[System]:
    """The system named; else sinusoidal positions, in the size that most systems have; else the first with runs.

    Variants are chosen if there is nothing else. None if nothing was run, or not the system named.
    """
    run = sorted((system for system in systems if system.runs), key=lambda system: bool(system.variant))
    if arch is not None:
        return next((system for system in run if system.arch == arch), None)

    def size(system: System) -> int:
        ending = system.arch[len(SINUSOIDAL) - 1 :]
        return sum(other.arch.endswith(ending) for other in run)

    sinusoidal = [system for system in run if system.arch.startswith(SINUSOIDAL) and not system.variant]
    return max(sinusoidal, key=size) if sinusoidal else next(iter(run), None)


def differences(
    systems: Sequence[System], baseline: System, test: str, metric: str = BLEU
) -> Tuple[Dict[Label, Difference], str]:
    """For each other system that has a seed in common with the baseline; and the signature of their test."""
    p: Dict[Label, Dict[int, float]] = {system.label: {} for system in systems}
    signature = ""
    for seed, entry in baseline.tests(test).items() if metric == BLEU else ():
        others = [(s.label, s.tests(test)[seed]) for s in systems if _both(s, baseline, test, seed)]
        new = {
            str(i): rows(other["statistics"]) for i, (_, other) in enumerate(others) if _pair(entry, other) not in _P
        }
        if new:
            p_values, signature = paired_bootstrap(rows(entry["statistics"]), new)
            for i, value in p_values.items():
                _P[_pair(entry, others[int(i)][1])] = (value, entry, others[int(i)][1])
        for label, other in others:
            p[label][seed] = _P[_pair(entry, other)][0]
    found = {}
    own = baseline.scores(test, metric)
    for system in systems:
        scores = system.scores(test, metric)
        by_seed = {seed: scores[seed] - own[seed] for seed in scores if seed in own}
        if by_seed and system is not baseline:
            found[system.label] = Difference(by_seed, p[system.label], METRICS[metric].sign)
    return found, signature


_P: Dict[FrozenSet[int], Tuple[float, Any, Any]] = {}
"""p of two entries of a test set, whichever is the baseline; it holds both, so that no others get their ids."""


def _pair(one: Any, other: Any) -> FrozenSet[int]:
    return frozenset((id(one), id(other)))


def _both(system: System, baseline: System, test: str, seed: int) -> bool:
    """Whether both have the metric with p values with a seed."""
    return system is not baseline and all(seed in one.scores(test, BLEU) for one in (system, baseline))


def difference(system: System, other: System, test: str, metric: str = BLEU) -> Optional[Difference]:
    """One system minus another; None if they have no seed in common."""
    return differences([system], other, test, metric)[0].get(system.label)


def length_table(systems: Sequence[System], test: str) -> Tuple[List[Tuple[str, int]], Dict[Label, List[float]]]:
    """BLEU by source length, mean over seeds.

    Returns:
        Label and number of sentences of each bucket that has any, and each system's BLEU in these.
    """
    tables = {}
    for system in systems:
        known = [entry["statistics"] for entry in system.tests(test).values() if BLEU in entry["scores"]]
        tables[system.label] = [by_length(statistics) for statistics in known]
    sizes = next((runs[0] for runs in tables.values() if runs), [(0, 0.0)] * len(BUCKETS))
    used = [i for i, (sentences, _) in enumerate(sizes) if sentences]
    labels = [f"{first}-{last}" if last else f"over {first - 1}" for first, last in BUCKETS]
    values = {label: [mean(run[i][1] for run in runs) for i in used] for label, runs in tables.items() if runs}
    return [(labels[i], sizes[i][0]) for i in used], values
