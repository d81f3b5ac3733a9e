"""In what the trainings of two systems differ, and which systems make a pair."""

import re
from typing import Any, List, Optional, Sequence, Tuple

from ..results.file import wanted_updates
from .systems import System, budget, searches

DATA = re.compile(r"^data (\w+)$", re.MULTILINE)
BATCH = re.compile(r" ((?:target tokens|devices) \d+)(?: from \w+)*$", re.MULTILINE)
"""In the settings of a run, as ``pipeline/settings.py`` writes them."""


def closest(systems: Sequence[System], system: System, arch: str) -> Optional[System]:
    """The plain system of an architecture that was trained most like another system; None if it was not run."""
    plain = [each for each in systems if each.arch == arch and each.runs and not each.variant]
    return min(plain, key=lambda each: len(_changes(system, each)), default=None)


def changes(system: System, than: System) -> str:
    """Flags, data, updates, averaging and search in which a system differs from another; both must have been run."""
    return ", ".join(_changes(system, than))


def _changes(system: System, than: System) -> List[str]:
    own, other = system.flags, than.flags
    changed = [f"{flag} {own[flag]}".strip() for flag in own if own[flag] != other.get(flag)]
    changed += [f"without {flag}" for flag in other if flag not in own]
    pairs = zip(_facts(system), _facts(than))
    return changed + [text for (fact, text), (known, _) in pairs if fact != known and None not in (fact, known)]


def _facts(system: System) -> List[Tuple[Any, str]]:
    """What scores depend on besides flags, None where it is not recorded, and how to say it."""
    result = system.results[0]
    settings, averaged, search = result.get("settings", ""), result["training"]["averaged"], searches(result)
    data, batch = DATA.search(settings), BATCH.search(settings)
    return [
        (data and data[1], "other data"),
        ((batch[1] if batch else "") if settings else None, batch[1] if batch else "one batch per update"),
        (wanted_updates(result), budget(system.results)),
        (averaged, f"averaged {averaged}"),
        (search or None, " and ".join(search)),
    ]
