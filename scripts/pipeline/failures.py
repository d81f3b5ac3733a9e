"""Why a tool failed, by its log."""

import re
from pathlib import Path

LINES = 400
"""At the end of a log, in which the reason is looked for."""

LENGTH = 300
"""Characters of a reason that are shown."""

ERROR = re.compile(
    r"^[A-Za-z_.]*(Error|Exception|Exit|Interrupt)\b|: error: |^error: |^[a-zA-Z_.]+Error:|No module named"
)


def last_error(log: Path) -> str:
    """The last line of a log that says why a command failed, at most 300 characters."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LINES:]
    except OSError:
        lines = []
    lines = [re.sub(r"^\[rank\d+\]: ", "", line) for line in lines]
    reasons = [line for line in lines if ERROR.search(line) and "ChildFailedError" not in line]
    return reasons[-1].strip()[:LENGTH] if reasons else "no reason given"
