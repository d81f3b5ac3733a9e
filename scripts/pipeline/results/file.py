"""Result files: JSON of one run, made by ``scripts/reproduce.sh`` and read by the report."""

import shlex
import time
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ..command import Failure, one_line, say
from ..files import read_json, write_json
from ..scoring.scored import BLEU, SCORE
from ..scoring.statistics import COLUMNS, ROUNDED, bleu, rows
from ..shape import DIGITS, EVEN, LARGEST, NULL_OR_NUMBER, NULL_OR_TEXT, NUMBER, PLAIN, TEXT, WHOLE, between, problem

FORMAT = "fairseq_rope result 1"
"""The entry ``format``, which identifies a result file."""

KIND = FORMAT.rpartition(" ")[0]
REMEDY = "remove it, and run scripts/reproduce.sh again"

BENCHMARK = "benchmark-"
"""How the name of a file of ``scripts/benchmark.sh`` begins that the report reads."""

CURVE = {"updates": [WHOLE], "seconds": [NULL_OR_NUMBER], "nll": [between(0, 1000)]}
"""Times are null where they are not known."""
RUN = {"command": TEXT, "flags": TEXT, "versions": {"*": TEXT}, "machine": TEXT, "commit?": NULL_OR_TEXT}
COSTS = ("parameters", "parameters_trained", "updates", "target_tokens", "averaged")
RATES = {"target_tokens_per_update": NULL_OR_NUMBER, "target_tokens_per_second": NULL_OR_NUMBER}
TEXT_COUNTS = ("documents", "bytes", "tokens")
DATA = {
    **{f"{key}?": NULL_OR_NUMBER for key in ("kept", "merges", "vocabulary")},
    **{f"{unit}?": {"*": NUMBER} for unit in TEXT_COUNTS},
    "shortened?": {"*": WHOLE},
}
ROTATION = {"dim?": EVEN, "base?": between(1.0001, LARGEST), "stretch?": between(1, 1e6)}
SIDE = {"encoding": TEXT, "correlations?": [[[NULL_OR_NUMBER]]], **ROTATION}
TEST = {
    **{"subset": TEXT, "sentences": WHOLE, "settings": TEXT, "scores": {"*": SCORE}, "statistics?": {"*": [WHOLE]}},
    "chance?": {"*": NUMBER},
}
SHAPE: Dict[str, Any] = {
    **dict.fromkeys(("recipe", "variant", "arch", "settings?", "unfinished?"), TEXT),
    "seed": WHOLE,
    "entries": {"*": PLAIN},
    "run": {**RUN, "task?": TEXT, "max_update?": DIGITS, "threads?": PLAIN, "jobs?": PLAIN},
    "training": {
        **dict.fromkeys(COSTS, WHOLE),
        **RATES,
        "rate?": TEXT,
        "seconds": NULL_OR_NUMBER,
        "devices": [TEXT],
        "processes?": WHOLE,
    },
    "data": {**DATA, "pairs?": {"train?": NULL_OR_NUMBER, "valid?": NULL_OR_NUMBER}, "command?": TEXT},
    "grid?": [{"*": NUMBER}],
    "pretrained?": {"checkpoint": TEXT, "updates": WHOLE, "max_update?": WHOLE, "averaged?": WHOLE, "so_far?": PLAIN},
    "curve": {"train": CURVE, "valid": CURVE},
    "positions?": {"encoder?": SIDE, "decoder?": SIDE},
    "tests": {"*": TEST},
}
"""The entries of a result file that the report reads, and their content."""

Result = Dict[str, Any]


def wanted_updates(result: Result) -> int:
    """How many updates a run may have, which may end earlier (``--patience``); if not recorded, how many it has."""
    return int(result["run"].get("max_update") or result["training"]["updates"])


class Broken(NamedTuple):
    """A file that the report leaves out, and the reason."""

    path: Path
    reason: str


def set_aside(path: Path) -> None:
    """Renames a result file of a finished run, whose place one with other settings takes."""
    old = f"{path}.old-{time.strftime('%Y%m%d-%H%M%S')}"
    say(f"{path} is of a run with other settings: it moves to {old}")
    path.rename(old)


def write_result(result: Result, path: Path) -> None:
    """Writes a result file.

    Raises:
        Failure: the result has no scores, but the existing file has.
    """
    if result.get("unfinished") and path.is_file() and _has_scores(path):
        raise Failure(f"{path} has the scores of a finished run: name another file, or remove it")
    write_json(path, result)


def _has_scores(path: Path) -> bool:
    """Whether a result file is from a finished run, and not damaged."""
    try:
        result = read_json(path)
    except Failure:
        return False
    return isinstance(result, dict) and bool(result.get("tests"))


def read_result(path: Path) -> Result:
    """The content of a result file.

    Raises:
        Failure: the file cannot be read, is damaged, incomplete or inconsistent, or is not a result.
    """
    return _checked(path, read_json(path, REMEDY))


def _checked(path: Path, result: Any) -> Result:
    """The content of ``path``, if it is a usable result."""
    if not isinstance(result, dict) or result.get("format") != FORMAT:
        raise Failure(f"{path} is no result file of version '{FORMAT}': {REMEDY}")
    reason = problem(result, SHAPE) or _inconsistency(result)
    if reason:
        raise Failure(f"{path} {reason}: {REMEDY}")
    return result


def read_results(paths: Sequence[Path]) -> Tuple[List[Tuple[Path, Result]], List[Broken], List[Tuple[Path, Any]]]:
    """Reads result files, each once and in the order of their names: the named files, and those in the named folders.

    Returns:
        The results, the files that cannot be used, and other JSON files in the folders, as well as named benchmarks.
    """
    found = [(file, path.is_dir()) for path in paths for file in (path.glob("*.json") if path.is_dir() else [path])]
    results, broken, others = [], [], []
    for file, in_folder in sorted({pair[0].resolve(): pair for pair in found}.values()):
        try:
            content = read_json(file, REMEDY)
            if (in_folder or file.name.startswith(BENCHMARK)) and not _is_result(content):
                others.append((file, content))
            else:
                results.append((file, _checked(file, content)))
        except Failure as error:
            broken.append(Broken(file, str(error).removeprefix(one_line(f"{file} ")).removesuffix(f": {REMEDY}")))
    return results, broken, others


def _is_result(value: Any) -> bool:
    return isinstance(value, dict) and str(value.get("format")).startswith(KIND)


def _inconsistency(result: Result) -> str:
    """A contradiction between two entries; empty if there is none."""
    for name, points in result["curve"].items():
        if len({len(column) for column in points.values()}) > 1:
            return f"has columns of several lengths in the curve '{name}'"
    for side, entry in result.get("positions", {}).items():
        if isinstance(entry, dict) and not _square(entry.get("correlations", [[[0]]])):
            return f"has correlations of the {side} that are not square"
        if isinstance(entry, dict) and len({"dim", "base", "stretch"} & set(entry)) in (1, 2):
            return f"has only a part of dim, base and stretch of the {side}"
    reasons = ((name, inconsistency(test)) for name, test in result["tests"].items())
    return next((f"{reason} (test set {name})" for name, reason in reasons if reason), "")


def inconsistency(test: Dict[str, Any]) -> str:
    """A contradiction between BLEU of a test set and the statistics of its sentences; empty if there is none."""
    statistics, sentences = test.get("statistics", {}), test["sentences"]
    if not sentences:
        return "has no sentences"
    if BLEU not in test["scores"]:
        return ""
    if set(statistics) != set(COLUMNS) or {len(column) for column in statistics.values()} != {sentences}:
        return f"does not hold the statistics of {sentences} sentences"
    stated, computed = test["scores"][BLEU]["score"], bleu(rows(statistics))
    return f"says {stated} BLEU, its statistics have {computed:.2f}" if abs(stated - computed) > ROUNDED else ""


def without_folders(command: str, places: Mapping[str, str]) -> str:
    """A command with placeholders for the folders of this machine, which mean nothing on another one.

    Args:
        places: option, to what stands for each of its values, where ``{name}`` is their last part.
    """
    words, option = [], ""
    for word in shlex.split(command):
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            option = "" if equals else name
        if option in places and word != option:
            word = places[option].format(name=Path(word).name)
        elif equals and name in places:
            word = f"{name}={places[name].format(name=Path(value).name)}"
        words.append(word)
    return shlex.join(words)


def _square(maps: Sequence[Sequence[Sequence[Any]]]) -> bool:
    """Whether all matrices are square and of one size, and have a number."""
    sizes = {size for rows in maps for size in (len(rows), *map(len, rows))}
    return len(sizes) == 1 and 0 not in sizes and all(any(x is not None for row in rows for x in row) for rows in maps)
