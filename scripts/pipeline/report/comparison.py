"""Systems against a baseline on one test set: means over seeds, differences, sacrebleu's paired bootstrap, lengths."""

from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

from ..scoring.statistics import BUCKETS, by_length, paired_bootstrap, rows
from .systems import System, mean

SINUSOIDAL = "transformer_sinusoidal_"
LEVEL = 0.05
"""A difference is called significant if p is below, with every seed."""


@dataclass(frozen=True)
class Difference:
    """A system's sacreBLEU minus the baseline's, and the p value, with each of their common seeds."""

    by_seed: Dict[int, float]
    p: Dict[int, float]

    @property
    def bleu(self) -> float:
        return mean(self.by_seed.values())

    @property
    def significant(self) -> bool:
        """With every seed, and in one direction."""
        one_way = min(self.by_seed.values()) > 0 or max(self.by_seed.values()) < 0
        return one_way and all(p < LEVEL for p in self.p.values())


def ranked(systems: Sequence[System], test: str) -> List[System]:
    """Best sacreBLEU on a test set first, those without it last."""

    def key(system: System) -> Tuple[float, str, str]:
        scores = system.scores(test, "sacrebleu")
        return (-mean(scores.values()) if scores else 1.0, system.arch, system.variant)

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


def differences(systems: Sequence[System], baseline: System, test: str) -> Tuple[Dict[int, Difference], str]:
    """For each other system, by its place, that has a seed in common with the baseline; and the test's signature."""
    p: Dict[int, Dict[int, float]] = {}
    signature = ""
    known = baseline.tests(test)
    for seed, entry in known.items():
        others = {
            str(i): rows(system.tests(test)[seed]["statistics"])
            for i, system in enumerate(systems)
            if system is not baseline and seed in system.tests(test)
        }
        if others:
            p_values, signature = paired_bootstrap(rows(entry["statistics"]), others)
            for name, value in p_values.items():
                p.setdefault(int(name), {})[seed] = value
    differences_by_place = {}
    own = baseline.scores(test, "sacrebleu")
    for i, values in p.items():
        scores = systems[i].scores(test, "sacrebleu")
        differences_by_place[i] = Difference({seed: scores[seed] - own[seed] for seed in values}, values)
    return differences_by_place, signature


def difference(system: System, other: System, test: str) -> Optional[Difference]:
    """One system minus another; None if they have no seed in common."""
    return differences([system], other, test)[0].get(0)


def length_table(systems: Sequence[System], test: str) -> Tuple[List[Tuple[str, int]], List[List[float]]]:
    """BLEU by source length, mean over seeds.

    Returns:
        Label and number of sentences of each bucket that has any, and for each system its BLEU in these; an empty list
        for a system without the test set.
    """
    p_values = [[by_length(entry["statistics"]) for entry in system.tests(test).values()] for system in systems]
    sizes = next((runs[0] for runs in p_values if runs), [(0, 0.0)] * len(BUCKETS))
    used = [i for i, (sentences, _) in enumerate(sizes) if sentences]
    labels = [f"{first}-{last}" if last else f"over {first - 1}" for first, last in BUCKETS]
    header = [(labels[i], sizes[i][0]) for i in used]
    return header, [[mean(run[i][1] for run in runs) for i in used] if runs else [] for runs in p_values]
