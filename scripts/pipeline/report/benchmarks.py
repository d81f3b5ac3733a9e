"""Speed, from the files that ``scripts/benchmark.sh --out`` writes: one row for each file and candidate."""

from pathlib import Path
from typing import Any, List, NamedTuple, Sequence, Tuple

import msgspec

CASES = {"precision": "{}", "sentences": "batch {}"}
"""Columns of a file that say what a candidate did, and how to say it."""


class Row(msgspec.Struct, rename={"ratio": "times as fast", "share": "share of peak", "memory": "peak MiB"}):
    """A candidate in one case."""

    candidate: str
    ratio: float  # the baseline's time divided by its own
    quartiles: str
    share: str = ""
    memory: float = 0
    case: str = ""


class File(NamedTuple):
    """One benchmark."""

    name: str
    conditions: str
    """What was measured, on which machine, by which command."""
    rows: List[Row]
    length: int  # source tokens of its sentences, in the mean


def read_benchmarks(files: Sequence[Tuple[Path, Any]]) -> List[File]:
    """The benchmarks among JSON files, given with their content; without those that compare no candidates."""
    found = []
    for path, content in files:
        try:
            rows = msgspec.convert(content["rows"], List[Row])
        except (msgspec.ValidationError, KeyError, TypeError):
            continue
        for row, entries in zip(rows, content["rows"]):
            row.case = ", ".join(told.format(entries[key]) for key, told in CASES.items() if key in entries)
        machine = ", ".join(f"{key} {value}" for key, value in content.get("machine", {}).items())
        conditions = ". ".join(filter(None, [content.get("what"), machine, content.get("command")]))
        batch = content.get("batch", {})
        length = round(batch.get("source tokens", 0) / batch.get("sentences", 1))
        found.append(File(path.stem.removeprefix("benchmark-"), conditions, rows, length))
    return found
