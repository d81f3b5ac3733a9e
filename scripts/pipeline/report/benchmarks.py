"""The part of the report about speed, from the files that ``scripts/benchmark.sh --out`` writes; once for all recipes.

Which table a file belongs to is told by the columns of its rows, so that files of any machine find their place.
"""

from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from ..files import read_json
from .document import Block, Bullets, Code, Heading, Paragraph, Table, Text

TITLE = "Throughput"
PATTERN, PREFIX = "benchmark-*.json", "benchmark-"
READING: Text = (
    "Within a file the candidates ran in turn in one process. Times as fast: the median over the rounds of the "
    "baseline's time divided by the candidate's own, more than 1 being faster, with its quartiles. Seconds and tokens "
    "per second of different files do not compare. Share of peak: of the rate of large matrix products that the file's "
    "machine was measured to have. The time against sinusoidal positions is the quotient of the two seconds, in the "
    "same file and precision."
)
STOCK: Text = (
    Code("stock"),
    " is fairseq's own transformer: in training with its own loss and optimizer, in decoding with its own search.",
)
SINUSOIDAL = "transformer_sinusoidal_"
RELATIVE = "time against sinusoidal"
RATIO, QUARTILES = "times as fast", "quartiles"
ONE = "1.0 to 1.0"
"""Quartiles of the baseline itself."""

Row = Dict[str, Any]


class Kind(NamedTuple):
    """One table: the columns of the rows that it takes, and how it is laid out."""

    title: str
    first: Sequence[str]  # columns that say what a row is about
    columns: Sequence[str]  # and those with its numbers
    across: Sequence[str] = ()  # whose values are columns, with ratio and quartiles in them

    def takes(self, row: Row) -> bool:
        needed = [*self.first, *self.across, RATIO, QUARTILES, *(name for name in self.columns if name != RELATIVE)]
        return all(name in row for name in needed) and isinstance(row[RATIO], (int, float)) and row[RATIO] > 0


KINDS = (
    Kind("Training steps", ("candidate", "precision"), ("seconds", RATIO, QUARTILES, "share of peak", RELATIVE)),
    Kind("Decoding", ("candidate", "sentences"), (RATIO, QUARTILES, "tokens/s")),
    Kind("One self-attention by length", ("tokens",), (), ("attention", "side")),
    Kind("RoPE alone", ("precision", "pass"), (), ("candidate",)),
)


def throughput(paths: Sequence[Path]) -> List[Block]:
    """Tables of the benchmark files in those of ``paths`` that are folders; no section if there are none.

    Raises:
        ResultError: a benchmark file that is not JSON.
    """
    folders = {path.resolve(): path for path in paths}.values()
    files = [entry for folder in folders for entry in _files(folder)]
    parts: List[Block] = []
    shown: List[Tuple[Path, Row]] = []
    for kind in KINDS:
        matching = [(file, result) for file, result in files if _is(result, kind)]
        if matching:
            parts += [Heading(3, kind.title), *(_across if kind.across else _down)(kind, matching)]
            shown += matching
    if not parts:
        return []
    passed = [file.name for file, _ in files if file not in [other for other, _ in shown]]
    shown.sort(key=lambda pair: pair[0].name)
    end: List[Block] = [
        Heading(3, "What was measured"),
        Bullets([*_machines(shown), *(_about(*pair) for pair in shown)]),
    ]
    if passed:
        end.append(Paragraph(f"Without such rows, and not shown: {', '.join(passed)}."))
    return [Heading(2, TITLE), Paragraph(READING), Paragraph(STOCK), *parts, *end]


def step_seconds(paths: Sequence[Path]) -> List[Dict[str, float]]:
    """Seconds of a training step in fp32 by architecture, of each benchmark file that has them."""
    training, precision = KINDS[0], "fp32"
    results = [result for folder in paths for _, result in _files(folder) if _is(result, training)]
    return [
        {str(row["candidate"]): float(row["seconds"]) for row in result["rows"] if row["precision"] == precision}
        for result in results
    ]


def _files(folder: Path) -> List[Tuple[Path, Any]]:
    return [(file, read_json(file)) for file in sorted(folder.glob(PATTERN))]


def _is(result: Any, kind: Kind) -> bool:
    rows = result.get("rows") if isinstance(result, dict) else None
    return bool(isinstance(rows, list) and rows and all(isinstance(row, dict) and kind.takes(row) for row in rows))


def _short(file: Path) -> str:
    return file.stem[len(PREFIX) :]


def _down(kind: Kind, matching: Sequence[Tuple[Path, Row]]) -> List[Block]:
    """One table for all files, with their rows one below the other."""
    relative = any(_relative(row, result["rows"]) for _, result in matching for row in result["rows"])
    columns = [name for name in kind.columns if name != RELATIVE or relative]
    rows: List[List[Text]] = []
    for file, result in matching:
        for row in result["rows"]:
            cells: List[Text] = [Code(row["candidate"]), *(str(row[name]) for name in kind.first[1:]), _short(file)]
            rows.append([*cells, *(_cell(name, row, result["rows"]) for name in columns)])
    return [Table([*kind.first, "file", *columns], rows, left=range(1, len(kind.first) + 1))]


def _cell(name: str, row: Row, rows: Sequence[Row]) -> str:
    return _relative(row, rows) if name == RELATIVE else str(row[name])


def _relative(row: Row, rows: Sequence[Row]) -> str:
    """The time of ``row`` against that of sinusoidal positions in the same file and precision; empty without them."""
    for other in rows:
        system = str(other["candidate"]).partition("@")[0]
        if system.startswith(SINUSOIDAL) and ":" not in system and other.get("precision") == row.get("precision"):
            return f"{row['seconds'] / other['seconds']:.2f}"
    return ""


def _across(kind: Kind, matching: Sequence[Tuple[Path, Row]]) -> List[Block]:
    """A table for each file: what it compares has columns of its own, with the ratios and quartiles in them."""
    tables: List[Block] = []
    for file, result in matching:
        names = list({_key(row, kind.across): 0 for row in result["rows"] if row[RATIO] != 1 or row[QUARTILES] != ONE})
        lines: Dict[Tuple[str, ...], Dict[Tuple[str, ...], str]] = {}
        for row in result["rows"]:
            line = lines.setdefault(_key(row, kind.first), {})
            line[_key(row, kind.across)] = f"{row[RATIO]} ({row[QUARTILES]})"
        rows: List[List[Text]] = [[*first, *(line.get(name, "") for name in names)] for first, line in lines.items()]
        header = [*kind.first, *(", ".join(name) for name in names)]
        about: Text = [Code(file.name), f": {result.get('what', RATIO)}."]
        tables += [Paragraph(about), Table(header, rows, left=range(1, len(kind.first)))]
    return tables


def _key(row: Row, names: Sequence[str]) -> Tuple[str, ...]:
    return tuple(str(row[name]) for name in names)


def _about(file: Path, result: Row) -> Text:
    """What a file says but its rows and its machine: settings, and the command where it is recorded."""
    known = [(name, value) for name, value in result.items() if name not in ("rows", "what", "command", "machine")]
    settings = "; ".join(f"{name}: {_plain(value)}" for name, value in known if value not in ([], "", None))
    command: List[Any] = ["; ", Code(result["command"])] if "command" in result else []
    return [Code(file.name), f": {result.get('what', '')}. {settings}", *command, "."]


def _of(files: Sequence[str]) -> str:
    return f" ({', '.join(files)})"


def _machines(shown: Sequence[Tuple[Path, Row]]) -> List[Text]:
    """The distinct machines; if there are several, each with its files."""
    about: Dict[str, List[str]] = {}
    for file, result in shown:
        about.setdefault(_plain(result.get("machine", "not recorded")), []).append(_short(file))
    return [f"Machine: {text}{_of(names) if len(about) > 1 else ''}." for text, names in about.items()]


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_plain(entry)}" for key, entry in value.items())
    return ", ".join(map(_plain, value)) if isinstance(value, list) else str(value)
