"""Systems against others on one test set: differences and how sure they are, and scores by length.

If systems of a recipe have several seeds, they tell how much a seed changes, and a bootstrap draws both sentences and
trainings. Else it draws sentences alone, and finds differences between two trainings of one system too often.
"""

from dataclasses import dataclass
from functools import cache
from statistics import fmean as mean
from typing import Any, FrozenSet, List, Optional, Sequence, Tuple

from ..scoring import statistics
from ..scoring.metrics import METRICS
from ..scoring.scored import BLEU
from .systems import SystemResults

LEVEL = 0.05
"""A difference is significant if p is below this."""

LOWEST = 1.0
"""BLEU below which trainings hardly vary, whatever their system."""

FEWEST = 20
"""Sentences that a range of lengths needs to be shown."""

BASELINES = [f"transformer_{name}_" for name in ("learned_mlm", "learned_lm", "linear_learned_lm", "sinusoidal")]
"""Architectures to compare with, without the size: the first one that was run."""


@dataclass(frozen=True)
class Difference:
    """A system's mean score minus another's, and how sure that is."""

    own: Tuple[float, ...]
    others: Tuple[float, ...]
    """The scores of the trainings of both; without a test over trainings, those of the common seeds, in one order."""
    p: Optional[float] = None  # None for a metric without a test
    interval: Optional[Tuple[float, float]] = None  # the middle 95% of the test's samples
    sign: int = 1  # of an improvement
    signature: str = ""  # of the test
    over_trainings: bool = False  # whether the test knows how much trainings differ

    @property
    def value(self) -> float:
        return mean(self.own) - mean(self.others)

    @property
    def relation(self) -> str:
        """``>`` better, ``<`` worse, ``≈`` neither: by the test; without one, whether all seeds have one direction."""
        gaps = [own - other for own, other in zip(self.own, self.others)]
        certain = self.p < LEVEL if self.p is not None else min(gaps) > 0 or max(gaps) < 0
        return (">" if self.sign * self.value > 0 else "<") if certain else "≈"


def choose_baseline(systems: Sequence[SystemResults], arch: str = "") -> Optional[SystemResults]:
    """The named system, None if it was not run; else the first of :data:`BASELINES`; else any. Of several, the one with
    most trainings, then the one that shares a seed with most systems; a variant only if there is nothing else."""

    def order(system: SystemResults) -> Tuple[bool, int, int]:
        alike = sum(not system.runs.keys().isdisjoint(other.runs) for other in systems)
        return bool(system.variant), -len(system.runs), -alike

    usual = sorted(systems, key=order)
    if arch:
        return next((system for system in usual if system.arch == arch), None)
    named = [system for name in BASELINES for system in usual if system.arch.startswith(name) and not system.variant]
    return next(iter([*named, *usual]), None)


def compare(
    system: SystemResults, other: SystemResults, test: str, metric: str = BLEU, systems: Sequence[SystemResults] = ()
) -> Optional[Difference]:
    """The difference of one system to another on a test set, over all trainings if ``systems``, all of the recipe, tell
    how much trainings differ. Else, and of the same trainings, it is over the common seeds; None without one."""
    scores, others = (each.scores(test, metric) for each in (system, other))
    spreads = _spreads(system, other, test, systems) if metric == BLEU and not _are_same(system, other) else []
    over_trainings = any(each.squares for each in spreads)
    if not over_trainings:
        common = [seed for seed in scores if seed in others]
        scores, others = ({seed: known[seed] for seed in common} for known in (scores, others))
    if not scores or not others:
        return None
    own, theirs, sign = tuple(scores.values()), tuple(others.values()), METRICS[metric].sign
    if metric != BLEU or next(iter(system.tests(test).values())).sentences == 1:  # one document is no sample
        return Difference(own, theirs, sign=sign)
    one, two = ([_resampled(each, test, seed) for seed in known] for each, known in ((system, scores), (other, others)))
    p, middle = statistics.hierarchical_bootstrap(one, two, mean(own) - mean(theirs), spreads)
    drawn = "sentences"
    if over_trainings:
        total, explained, freedom = statistics.pooled(spreads)
        drawn += f" and trainings|variance:{total:.3f}|by sentences:{explained:.3f}|freedom:{freedom}"
        drawn += f"|draws:{statistics.DEVIATIONS}"
    signature = f"{drawn}|n:{statistics.SAMPLES}|seed:{statistics.SEED}"
    return Difference(own, theirs, p, middle, sign, signature, over_trainings)


def _spreads(
    system: SystemResults, other: SystemResults, test: str, systems: Sequence[SystemResults]
) -> List[statistics.Spread]:
    """How much BLEU varies over seeds on a test set: of the two compared, then of all others of the recipe.

    A training that was averaged or searched in several ways counts once. Others near 0 BLEU, which cannot vary, do not.
    """
    chosen = [system, other]
    for each in sorted(systems, key=lambda each: -len(each.scores(test, BLEU))):
        scores = each.scores(test, BLEU)
        counted = [one for one in chosen if len(one.scores(test, BLEU)) > 1]
        if len(scores) > 1 and mean(scores.values()) >= LOWEST and not any(_are_same(each, one) for one in counted):
            chosen.append(each)
    return [_spread(each, test) for each in chosen] if systems else []


def _are_same(one: SystemResults, other: SystemResults) -> bool:
    """Whether two systems have a training in common, which was averaged or searched in two ways."""
    return not _trainings(one).isdisjoint(_trainings(other))


@cache
def _trainings(system: SystemResults) -> FrozenSet[Tuple[str, str]]:
    """What tells the trainings of a system from others: the learning curves."""
    return frozenset((result.arch, str(result.curve["train"])) for result in system.results)


@cache
def _spread(system: SystemResults, test: str) -> statistics.Spread:
    scores = system.scores(test, BLEU)
    if len(scores) < 2:
        return statistics.Spread()
    return statistics.spread(list(scores.values()), [_resampled(system, test, seed) for seed in scores])


@cache
def _resampled(system: SystemResults, test: str, seed: int) -> Any:
    return statistics.resampled_bleu(statistics.rows(system.tests(test)[seed].statistics))


def length_curve(system: SystemResults, test: str) -> List[Tuple[float, float]]:
    """Source length and BLEU, the mean over seeds, for each range of lengths that has enough sentences."""
    runs = [entry.statistics for entry in system.tests(test).values() if BLEU in entry.scores]
    points = []
    for buckets in zip(*map(statistics.by_length, runs)):
        words = buckets[0][0]
        if len(words) >= FEWEST:
            points.append((mean(words), mean(bleu for _, bleu in buckets)))
    return points
