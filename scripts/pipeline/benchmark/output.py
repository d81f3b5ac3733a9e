"""Prints a result as a Markdown table, and prepares it for JSON."""

import shlex
from typing import Any, Dict, List, Sequence

from ..shape import plain

Result = Dict[str, Any]
"""``what``, settings, ``rows`` of the table (all with the same columns) and ``machine``."""


PATHS = ("--out", "--corpus")


def as_command(words: Sequence[str]) -> str:
    """The command line, without folders, which mean nothing on another machine."""
    shown = ["scripts/benchmark.sh"]
    for previous, word in zip(["", *words], words):
        option, given, _ = word.partition("=")
        if given and option in PATHS:
            shown.append(f"{option}=PATH")
        else:
            shown.append("PATH" if previous in PATHS and word[:1] != "-" else word)
    return shlex.join(shown)


def measured_as(command: str, other: str) -> bool:
    """Whether two command lines, as of :func:`as_command`, measure the same, wherever they write it."""
    places = ("--out", "--out=PATH", "PATH")
    words, others = ([word for word in shlex.split(line) if word not in places] for line in (command, other))
    return words == others


def as_table(rows: List[Dict[str, Any]]) -> str:
    """Rows as a Markdown table."""
    cells = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in cells)


def as_text(result: Result) -> str:
    """The table, with its conditions below."""
    settings = [f"{name}: {plain(value)}" for name, value in result.items() if name not in ("what", "rows")]
    return "\n".join([as_table(result["rows"]), "", result["what"], *settings])
