"""Speed as data, from the files that ``scripts/benchmark.sh --out`` writes; once for all recipes.

The columns of its rows tell to which table a file belongs, so files of any machine find their place.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from ..results.file import BENCHMARK
from ..shape import LARGEST, PLAIN, TEXT, between, plain, problem

SINUSOIDAL = "transformer_sinusoidal_"
RELATIVE = "time against sinusoidal"
RATIO, QUARTILES = "times as fast", "quartiles"
POSITIVE = between(1e-9, LARGEST)
BASELINE = (1, "1.0 to 1.0")
"""Ratio and quartiles of the baseline itself."""

Row = Dict[str, Any]


class Kind(NamedTuple):
    """One kind of benchmark: the columns of its rows, and their layout."""

    title: str
    first: Sequence[str]  # columns that say what a row is about
    columns: Sequence[str]  # and those with its numbers
    across: Sequence[str] = ()  # whose values are columns, with ``columns`` in them

    def takes(self, result: Any) -> bool:
        """Whether a file has rows, and all of them are of this kind."""
        names = {*self.first, *self.across, *self.columns} - {RELATIVE}
        row = {name: POSITIVE if name in ("seconds", RATIO) else PLAIN for name in names}
        return not problem(result, {"rows": [row]}) and bool(result["rows"])


TRAINING = Kind("Training steps", ("candidate", "precision"), ("seconds", RATIO, QUARTILES, "share of peak", RELATIVE))
KINDS = (
    TRAINING,
    Kind("Decoding", ("candidate",), (RATIO, QUARTILES, "tokens/s"), ("sentences",)),
    Kind("One self-attention by length", ("tokens",), (RATIO, QUARTILES), ("attention", "side")),
    Kind("RoPE alone", ("precision", "pass"), (RATIO, QUARTILES), ("candidate",)),
    Kind("Criterion alone", ("precision",), (RATIO, QUARTILES), ("loss",)),
    Kind("Preparation", ("step",), ("prepare.sh (s)", "plain chain (s)", RATIO, QUARTILES)),
)

Columns = List[Tuple[str, List[str]]]
"""Heads and cells."""


class Steps(NamedTuple):
    """The training steps of one file, in fp32."""

    file: str
    criterion: str
    optimizer: str
    times: Dict[str, float]
    """By architecture, the baseline's being 1."""


class Table(NamedTuple):
    """One file."""

    file: str
    what: str
    settings: List[str]
    command: str  # empty if it is not recorded
    first: Columns  # say what a row is about
    columns: Columns


@dataclass
class Speed:
    """All measurements."""

    tables: Dict[str, List[Table]] = field(default_factory=lambda: {kind.title: [] for kind in KINDS})
    machines: Dict[str, List[str]] = field(default_factory=dict)  # and the files of each
    others: List[str] = field(default_factory=list)  # files with rows of no kind
    steps: List[Steps] = field(default_factory=list)


def read_speed(files: Sequence[Tuple[Path, Any]]) -> Speed:
    """Finds the benchmarks among JSON files, given with their content."""
    speed = Speed()
    for file, result in (pair for pair in files if pair[0].name.startswith(BENCHMARK)):
        kind = next((kind for kind in KINDS if kind.takes(result)), None)
        if kind is None:
            speed.others.append(file.name)
            continue
        name, rows = file.stem[len(BENCHMARK) :], result["rows"]
        if kind is TRAINING:
            fp32 = [row for row in rows if row["precision"] == "fp32"]
            times = {str(row["candidate"]): 1 / float(row[RATIO]) for row in fp32}
            trained_with = result.get("criterion, optimizer")
            if not problem(trained_with, [TEXT]) and len(trained_with) == 2:
                criterion, optimizer = trained_with
                speed.steps.append(Steps(name, criterion, optimizer, times))
            _add_relative(rows)
        speed.tables[kind.title].append(_table(name, kind, result))
        speed.machines.setdefault(plain(result.get("machine", "not recorded")), []).append(name)
    return speed


def _add_relative(rows: Sequence[Row]) -> None:
    """Adds the time relative to sinusoidal positions of the same size in the same precision, if these were measured:
    from the ratios, which are of interleaved rounds, not from the seconds. A row without a size, such as ``stock``, has
    that of the file, if this has one."""
    sinusoidal: Dict[Any, Dict[str, float]] = {}  # by precision and size
    for row in rows:
        system = str(row["candidate"]).partition("@")[0]
        if system.startswith(SINUSOIDAL) and not set(":+") & set(str(row["candidate"])):
            sinusoidal.setdefault(row["precision"], {}).setdefault(_size(system), row[RATIO])
    for row in rows:
        sizes, system = sinusoidal.get(row["precision"], {}), re.split("[@:+]", str(row["candidate"]))[0]
        if ratio := sizes.get(_size(system), min(sizes.values()) if len(sizes) == 1 and "_" not in system else 0.0):
            row[RELATIVE] = f"{ratio / row[RATIO]:.2f}"


def _size(arch: str) -> str:
    return arch.rpartition("_")[2]


def _table(name: str, kind: Kind, result: Row) -> Table:
    """The table of a file, without empty columns and without those of the baseline, which are 1 everywhere.

    A label column other than the first that is the same in all rows counts as a setting.
    """
    cells: Dict[Tuple[str, ...], Dict[Tuple[str, ...], Row]] = {}  # by what columns are about, and rows
    for row in result["rows"]:
        across = tuple(row[key] if isinstance(row[key], str) else f"{key} {row[key]}" for key in kind.across)
        cells.setdefault(across, {})[tuple(str(row[key]) for key in kind.first)] = row
    lines = list(dict.fromkeys(line for column in cells.values() for line in column))
    first = [(head, [line[i] for line in lines]) for i, head in enumerate(kind.first)]
    same = [column for column in first[1:] if len(set(column[1])) == 1]
    columns = []
    for across, rows in cells.items():
        if "candidate" in kind.first or any((row[RATIO], row[QUARTILES]) != BASELINE for row in rows.values()):
            heads = [", ".join(across) or kind.columns[0], *kind.columns[1:]]
            found = [[str(rows.get(line, {}).get(key, "")) for line in lines] for key in kind.columns]
            columns += [(head, [cell.replace(" to ", "\u2013") for cell in some]) for head, some in zip(heads, found)]
    return Table(
        name,
        str(result.get("what", RATIO)),
        [*(f"{head}: {values[0]}" for head, values in same), *_settings(result)],
        str(result.get("command", "")),
        [column for column in first if column not in same],
        [column for column in columns if any(column[1])],
    )


def _settings(result: Row) -> List[str]:
    """The entries of a file except its rows, its machine and its command."""
    known = [(name, value) for name, value in result.items() if name not in ("rows", "what", "command", "machine")]
    return [f"{name}: {plain(value)}" for name, value in known if value not in ([], "", None)]
