"""The systems of a recipe: architectures, and variants of them with further flags."""

import re
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

from .command import Failure, as_failure
from .settings import check_flags, flags_in


@dataclass(frozen=True)
class System:
    """An architecture, or a variant of one: the same architecture with further flags and a name of its own."""

    arch: str
    variant: str = ""
    flags: Tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name in files and folders."""
        return f"{self.arch}-{self.variant}" if self.variant else self.arch

    @property
    def title(self) -> str:
        """The name in tables."""
        return f"{self.arch} ({self.variant})" if self.variant else self.arch


def read_systems(archs: Sequence[str], variants: Sequence[str], baseline: Optional[str]) -> List[System]:
    """The systems that a user names.

    Args:
        archs: architectures, or patterns of them.
        variants: each is ``NAME ARCH FLAGS``.
        baseline: an architecture that the function only checks.

    Raises:
        Failure: an architecture is unknown, a variant has another form, or a name is given twice.
    """
    from fairseq_rope.architectures import match_architectures  # imports fairseq

    read = [_read_variant(text) for text in variants]
    for system in read:
        if sum(other.name == system.name for other in read) > 1:
            raise Failure(f"--variant names '{system.variant} {system.arch}' twice: name it once")
    with as_failure():
        systems = [System(arch) for arch in match_architectures(archs)] + read
        match_architectures([system.arch for system in read] + ([baseline] if baseline else []))
    return systems


def _read_variant(text: str) -> System:
    name, arch, *flags = [*text.split(), "", ""]
    flags = [flag for flag in flags if flag]
    if not (re.fullmatch(r"[A-Za-z0-9_.]+", name) and re.fullmatch(r"\w+", arch) and flags) or set(text) & set("'\"\\"):
        raise Failure(
            '--variant is "NAME ARCH FLAGS" without further quotes, as in "half roformer_base --rope-layout=half", not '
            f"'{text}'"
        )
    check_flags(flags_in(flags))
    return System(arch, name, tuple(flags))
