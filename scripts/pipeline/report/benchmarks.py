"""Speed, from the files that ``scripts/benchmark.sh --out`` writes: one row for each file and candidate."""

from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import msgspec

from .systems import SystemResults

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
    criterion: str  # of a training step
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
        criterion = content.get("criterion, optimizer", [""])[0]
        batch = content.get("batch", {})
        length = round(batch.get("source tokens", 0) / batch.get("sentences", 1))
        found.append(File(path.stem.removeprefix("benchmark-"), conditions, rows, criterion, length))
    return found


def relative_steps(
    files: Sequence[File], baseline: SystemResults, systems: Sequence[SystemResults]
) -> Dict[str, float]:
    """The time of a training step by architecture, relative to the baseline's: of the one benchmark in fp32, with the
    criterion of the baseline's training, that has most of the systems; empty without one."""
    archs, flags = {system.arch for system in systems}, baseline.results[0].run.flags.split()
    best: Dict[str, float] = {}
    for file in files:
        ratios = {row.candidate: row.ratio for row in file.rows if row.case == "fp32" and row.candidate in archs}
        if baseline.arch in ratios and file.criterion in flags and len(ratios) > max(1, len(best)):
            best = {arch: ratios[baseline.arch] / ratio for arch, ratio in ratios.items()}
    return best
