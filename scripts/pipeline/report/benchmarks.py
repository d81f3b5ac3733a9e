"""Speed, from the files that ``scripts/benchmark.sh --out`` writes, as data; once for all recipes.

Which table a file belongs to is told by the columns of its rows, so that files of any machine find their place.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from ..command import Failure
from ..files import read_json
from ..results.file import Broken
from ..results.shape import LARGEST, PLAIN, between, problem

PATTERN, PREFIX = "benchmark-*.json", "benchmark-"
SINUSOIDAL = "transformer_sinusoidal_"
RELATIVE = "time against sinusoidal"
RATIO, QUARTILES = "times as fast", "quartiles"
POSITIVE = between(1e-9, LARGEST)
REMEDY = "make it again with scripts/benchmark.sh"
ONE = "1.0 to 1.0"
"""Quartiles of the baseline itself."""

Row = Dict[str, Any]


class Kind(NamedTuple):
    """One kind of benchmark: the columns of the rows that it takes, and how they are laid out."""

    title: str
    first: Sequence[str]  # columns that say what a row is about
    columns: Sequence[str]  # and those with its numbers
    across: Sequence[str] = ()  # whose values are columns, with ``columns`` in them

    def takes(self, result: Any) -> bool:
        """Whether a file has rows, and all of this kind."""
        names = {*self.first, *self.across, *self.columns} - {RELATIVE}
        row = {name: POSITIVE if name in ("seconds", RATIO) else PLAIN for name in names}
        return not problem(result, {"rows": [row]}) and bool(result["rows"])


TRAINING = Kind("Training steps", ("candidate", "precision"), ("seconds", RATIO, QUARTILES, "share of peak", RELATIVE))
KINDS = (
    TRAINING,
    Kind("Decoding", ("candidate",), (RATIO, QUARTILES, "tokens/s"), ("sentences",)),
    Kind("One self-attention by length", ("tokens",), (RATIO, QUARTILES), ("attention", "side")),
    Kind("RoPE alone", ("precision", "pass"), (RATIO, QUARTILES), ("candidate",)),
)


class Table(NamedTuple):
    """The rows of one file. ``groups`` are the values of what has columns of its own; one empty one if nothing has."""

    file: str
    what: str
    settings: List[str]
    command: str  # empty if it is not recorded
    first: Sequence[str]
    groups: List[str]
    columns: List[str]  # of each group
    rows: List[List[str]]  # the first cells of each, and those of all groups


@dataclass
class Speed:
    """All that was measured."""

    tables: Dict[str, List[Table]] = field(default_factory=dict)  # by kind
    machines: List[Tuple[str, List[str]]] = field(default_factory=list)  # and its files, if there are several
    others: List[str] = field(default_factory=list)  # files with rows of no kind
    steps: List[Dict[str, float]] = field(default_factory=list)
    """Seconds of a training step in fp32 by architecture, of each file that has them."""


def read_speed(paths: Sequence[Path]) -> Tuple[Speed, List[Broken]]:
    """The benchmark files in those of ``paths`` that are folders, and those that cannot be read."""
    folders = {path.resolve(): path for path in paths if path.is_dir()}.values()
    speed, broken = Speed(), []
    machines: Dict[str, List[str]] = {}
    for file in sorted((file for folder in folders for file in folder.glob(PATTERN)), key=lambda file: file.name):
        try:
            result = read_json(file, REMEDY)
        except Failure as error:
            broken.append(Broken(file, str(error).removeprefix(f"{file} ").removesuffix(f": {REMEDY}")))
            continue
        kind = next((kind for kind in KINDS if kind.takes(result)), None)
        if kind is None:
            speed.others.append(file.name)
            continue
        name = file.stem[len(PREFIX) :]
        speed.tables.setdefault(kind.title, []).append(_table(name, kind, result))
        machines.setdefault(_plain(result.get("machine", "not recorded")), []).append(name)
        if kind is TRAINING:
            fp32 = [row for row in result["rows"] if row["precision"] == "fp32"]
            speed.steps.append({str(row["candidate"]): float(row["seconds"]) for row in fp32})
    speed.tables = {kind.title: speed.tables[kind.title] for kind in KINDS if kind.title in speed.tables}
    speed.machines = [(text, names if len(machines) > 1 else []) for text, names in machines.items()]
    return speed, broken


def _table(name: str, kind: Kind, result: Row) -> Table:
    """The table of a file, without groups that are the baseline itself, and without empty columns.

    A first column that says the same of all rows is a setting.
    """
    cells: Dict[Tuple[str, ...], Dict[str, List[str]]] = {}
    groups: Dict[str, bool] = {}
    for row in result["rows"]:
        names = [row[column] if isinstance(row[column], str) else f"{column} {row[column]}" for column in kind.across]
        group = ", ".join(names)
        measured = "candidate" in kind.first or row[RATIO] != 1 or row[QUARTILES] != ONE
        groups[group] = groups.get(group, False) or measured
        line = cells.setdefault(tuple(str(row[column]) for column in kind.first), {})
        line[group] = [_cell(column, row, result["rows"]) for column in kind.columns]
    used = [group for group, measured in groups.items() if measured]
    filled = [i for i in range(len(kind.columns)) if any(line[group][i] for line in cells.values() for group in line)]
    varied = [i for i in range(len(kind.first)) if i == 0 or len({first[i] for first in cells}) > 1]
    same = [f"{one}: {next(iter(cells))[i]}" for i, one in enumerate(kind.first) if i not in varied]
    empty = [""] * len(kind.columns)
    return Table(
        name,
        str(result.get("what", RATIO)),
        [*same, *_settings(result)],
        str(result.get("command", "")),
        [kind.first[i] for i in varied],
        used,
        [kind.columns[i] for i in filled],
        [
            [*(k[i] for i in varied), *(line.get(g, empty)[i] for g in used for i in filled)]
            for k, line in cells.items()
        ],
    )


def _cell(column: str, row: Row, rows: Sequence[Row]) -> str:
    return _relative(row, rows) if column == RELATIVE else str(row[column]).replace(" to ", "\u2013")


def _relative(row: Row, rows: Sequence[Row]) -> str:
    """The time of ``row`` against that of sinusoidal positions in the same file and precision; empty without them."""
    for other in rows:
        system = str(other["candidate"]).partition("@")[0]
        if system.startswith(SINUSOIDAL) and ":" not in system and other["precision"] == row["precision"]:
            return f"{row['seconds'] / other['seconds']:.2f}"
    return ""


def _settings(result: Row) -> List[str]:
    """What a file says but its rows, its machine and its command."""
    known = [(name, value) for name, value in result.items() if name not in ("rows", "what", "command", "machine")]
    return [f"{name}: {_plain(value)}" for name, value in known if value not in ([], "", None)]


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(entry)}" for key, entry in value.items())
    return ", ".join(map(_plain, value)) if isinstance(value, list) else str(value)
