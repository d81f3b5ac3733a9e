"""What papers claim about position encodings, as data, and whether the runs of one recipe agree.

An architecture is called FAMILY_SIZE; a claim is about two families and is tested at each size that has both.
"""

from dataclasses import dataclass
from typing import List, Optional, Sequence

from .comparison import Difference, difference
from .systems import System

AGREES, CONTRADICTS, OPEN = "agrees", "contradicts", "open"


@dataclass(frozen=True)
class Claim:
    """One family is better than another, or as good."""

    paper: str
    text: str  # what is claimed
    measured: str  # where the paper measured it, and its figures
    better: str
    than: str
    equal: bool = False  # neither is better
    longest: bool = False  # about longer sentences than those of the training
    flag: str = ""  # that the other system alone was trained with, a variant of the same architecture


CLAIMS: Sequence[Claim] = (
    Claim(
        "Vaswani et al. 2017",
        "learned and sinusoidal positions are nearly equal",
        "WMT14 En-De, table 3",
        "transformer_learned",
        "transformer_sinusoidal",
        equal=True,
    ),
    Claim(
        "Shaw et al. 2018",
        "relative positions beat sinusoidal ones",
        "WMT14 En-De, base: 26.8 against 26.5 BLEU",
        "transformer_shaw",
        "transformer_sinusoidal",
    ),
    Claim(
        "RoFormer 2021",
        "rotary positions beat sinusoidal ones",
        "WMT14 En-De, base: 27.5 against 27.3 BLEU (in the text of 2024 against 26.5)",
        "roformer",
        "transformer_sinusoidal",
    ),
    Claim(
        "RoFormer 2024",
        "rotary positions beat Shaw's",
        "WMT14 En-De, base: 27.5 against 26.8 BLEU, the latter taken from Shaw et al.",
        "roformer",
        "transformer_shaw",
    ),
    Claim(
        "RoFormer 2024",
        "rotary positions beat learned ones",
        "language model of 125M parameters, OpenWebText2: perplexity 15.78 against 16.59; not translation",
        "roformer",
        "transformer_learned",
    ),
    Claim(
        "RoFormer 2024",
        "rotary positions beat T5's",
        "language model of 125M parameters, OpenWebText2: perplexity 15.78 against 16.46; not translation",
        "roformer",
        "transformer_t5",
    ),
    Claim(
        "RoFormer 2024",
        "ALiBi extrapolates to longer input better than rotary positions",
        "not measured: said in the conclusion",
        "transformer_alibi",
        "roformer",
        longest=True,
    ),
    Claim(
        "RoFormer 2021",
        "rotary positions serve longer text better than learned ones",
        "CAIL2019-SCM, documents: 69.79% at 1,024 tokens against BERT's 67.77% at 512; not translation",
        "roformer",
        "transformer_learned",
        longest=True,
    ),
    Claim(
        "TUPE (Ke et al. 2021)",
        "untied absolute positions beat learned ones added to the words",
        "GLUE average of BERT-Base: 84.48 (TUPE-A) against 83.47 (BERT-A); not translation",
        "tupe_a",
        "transformer_learned",
    ),
    Claim(
        "TUPE (Ke et al. 2021)",
        "untied positions with a relative bias beat a relative bias",
        "GLUE average of BERT-Base: 84.90 (TUPE-R) against 83.66 (BERT-R, which adds absolute positions, "
        "as the architecture here does not); not translation",
        "tupe_r",
        "transformer_t5",
    ),
    Claim(
        "TUPE (Ke et al. 2021)",
        "untying the special symbol (the reset) helps",
        "GLUE average of BERT-Base: 84.48 against 83.79 (TUPE-A); not translation",
        "tupe_a",
        "tupe_a",
        flag="--tupe-no-reset",
    ),
    Claim(
        "TUPE (Ke et al. 2021)",
        "untying the special symbol (the reset) helps",
        "GLUE average of BERT-Base: 84.48 against 83.79 (TUPE-A); not translation",
        "tupe_r",
        "tupe_r",
        flag="--tupe-no-reset",
    ),
    Claim(
        "TUPE (Ke et al. 2021)",
        "untied positions with a relative bias beat those without",
        "GLUE average of BERT-Base: 84.90 (TUPE-R) against 84.48 (TUPE-A); not translation",
        "tupe_r",
        "tupe_a",
    ),
    Claim(
        "Press et al. 2022",
        "ALiBi extrapolates to longer input better than sinusoidal positions",
        "perplexity of language models; not translation",
        "transformer_alibi",
        "transformer_sinusoidal",
        longest=True,
    ),
)


@dataclass(frozen=True)
class Checked:
    """A claim, and what two systems of one size say about it."""

    claim: Claim
    better: System
    than: System
    test: str
    difference: Difference

    @property
    def verdict(self) -> str:
        """By the paired bootstrap: significant as claimed, significant otherwise, or neither."""
        if self.claim.equal:
            return CONTRADICTS if self.difference.significant else AGREES
        if not self.difference.significant:
            return OPEN
        return AGREES if self.difference.bleu > 0 else CONTRADICTS


def check(systems: Sequence[System], first: str, longest: Optional[str]) -> List[Checked]:
    """Each claim at each size of which both families were run, and have a common seed.

    Args:
        first: the test set that most claims are about.
        longest: the one with the longest sentences; claims about these are left out if there is none.
    """
    run = {system.arch: system for system in systems if system.runs and not system.variant}
    checked = []
    for claim in CLAIMS:
        test = longest if claim.longest else first
        for arch in sorted(run):
            if test is None or not arch.startswith(f"{claim.better}_"):
                continue
            size = arch[len(claim.better) :]
            than = _with_flag(systems, run[arch], claim.flag) if claim.flag else run.get(claim.than + size)
            if than is None:
                continue
            measured = difference(run[arch], than, test)
            if measured is not None:
                checked.append(Checked(claim, run[arch], than, test, measured))
    return checked


def _with_flag(systems: Sequence[System], plain: System, flag: str) -> Optional[System]:
    """The variant of a system that has one flag more, and differs in nothing else."""
    for system in systems:
        if system.arch == plain.arch and system.runs and flag in system.flags and flag not in plain.flags:
            rest = {name: value for name, value in system.flags.items() if name != flag}
            updates = {result["training"]["updates"] for result in [*system.results, *plain.results]}
            if rest == plain.flags and len(updates) == 1:
                return system
    return None
