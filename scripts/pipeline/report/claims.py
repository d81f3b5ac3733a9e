"""What papers claim about position encodings (``claims.toml``), and whether the runs of one recipe agree.

An architecture is called FAMILY_SIZE; a claim is about two families and is tested at each size that has both.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..recipes import tomllib
from .alike import changes, closest
from .comparison import Comparison, Difference
from .systems import Label, System

AGREES, CONTRADICTS, OPEN = "agrees", "contradicts", "open"
IN_LINE, AGAINST = "in line", "against"

Claim = Dict[str, Any]
"""``paper``, ``text`` (the claim), ``measured`` (the paper's figures), ``systems`` (the first is better); optionally
``equal`` (neither is better), ``longest`` (it is about longer sentences), ``flag`` (the second differs only by it)."""


class Checked(NamedTuple):
    """A claim, and the result of two systems of one size."""

    claim: Claim
    better: Label
    than: Label
    difference: Difference
    otherwise: str = ""
    """In what else the first was not trained as the second."""

    @property
    def verdict(self) -> str:
        """The verdict of the test: significant as claimed, significant the other way, or neither.

        The words are weaker if the test does not know how much trainings differ. Without a test, it is the direction of
        the difference, if all seeds have the same one.
        """
        found = self.difference
        agrees, contradicts = (AGREES, CONTRADICTS) if found.over_trainings else (IN_LINE, AGAINST)
        certain = found.one_way if found.p is None else found.significant
        if self.claim.get("equal"):
            return OPEN if found.p is None else contradicts if certain else agrees
        return (agrees if found.better else contradicts) if certain else OPEN


@lru_cache
def papers() -> Dict[str, Any]:
    """``claim``, a list; ``published``: a score and its source by recipe and architecture; ``elsewhere``: tables of
    papers, each with ``task`` (glue: its tasks are among the columns), ``source``, ``about``, ``columns`` and ``rows``.
    """
    return tomllib.loads(Path(__file__).with_name("claims.toml").read_text(encoding="utf-8"))


def check(
    claims: Sequence[Claim], systems: Sequence[System], first: str, longest: Optional[str], comparison: Comparison
) -> List[Checked]:
    """Checks each claim at each size in which both families were run with a common seed.

    Args:
        first: the test set that most claims are about.
        longest: the test set with the longest sentences; without one, claims about them are left out.
        comparison: of the systems of the recipe.
    """
    plain = [system for system in systems if system.runs and not system.variant]
    checked = []
    for claim in claims:
        better, than = claim["systems"]
        test = longest if claim.get("longest") else first
        for system in plain if test else ():
            if not system.arch.startswith(f"{better}_"):
                continue
            if claim.get("flag"):
                other = _with_flag(systems, system, claim["flag"])
            else:
                other = _counterpart(plain, system, than + system.arch[len(better) :])
            measured = comparison.difference(system, other, str(test)) if other else None
            if other and measured:
                otherwise = "" if claim.get("flag") else changes(system, other)
                checked.append(Checked(claim, system.label, other.label, measured, otherwise))
    return checked


def _counterpart(plain: Sequence[System], system: System, arch: str) -> Optional[System]:
    """The system of another architecture that was trained most like this one, if that holds the other way round too."""
    other = closest(plain, system, arch)
    return other if other and closest(plain, other, system.arch) is system else None


def _with_flag(systems: Sequence[System], plain: System, flag: str) -> Optional[System]:
    """The variant of a system that has one more flag, and differs in nothing else."""
    others = [system for system in systems if system.arch == plain.arch and system.runs]
    return next((system for system in others if changes(system, plain) == flag), None)
