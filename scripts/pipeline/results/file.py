"""Result files: JSON of one run, made by ``scripts/reproduce.sh`` and read by the report."""

from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..command import Failure
from ..files import read_json, to_text, write_text

FORMAT = "fairseq_rope result 1"
"""The entry ``format``, by which a result file is known."""

NEEDED: Dict[str, Sequence[str]] = {
    "recipe": (),
    "variant": (),
    "arch": (),
    "seed": (),
    "entries": (),
    "run": ("command", "flags", "versions", "machine"),
    "training": ("parameters", "parameters_trained", "updates", "target_tokens", "seconds", "devices", "averaged"),
    "data": (),
    "curve": ("train", "valid"),
    "tests": (),
}
"""Entries of a result file, and those within that cannot be missing."""

Result = Dict[str, Any]


class ResultError(Failure):
    """A run or a result file that is not complete, or not consistent; the message names the file and the remedy."""


def write_result(result: Result, path: Path) -> None:
    """Writes a result file.

    Raises:
        ResultError: the result has no scores, and the file that is there has.
    """
    if result.get("unfinished") and path.is_file() and _has_scores(path):
        raise ResultError(f"{path} has the scores of a finished run: name another file, or remove it")
    write_text(path, to_text(result) + "\n")


def _has_scores(path: Path) -> bool:
    """Whether a result file is that of a finished run, and not damaged."""
    try:
        return any(result["tests"] for _, result in read_results([path]))
    except Failure:
        return False


def read_results(paths: Sequence[Path]) -> List[Tuple[Path, Result]]:
    """Result files: those named, and those in the folders named, where other JSON files are passed over.

    Raises:
        ResultError: a file that cannot be read, is damaged, or was named and is no result.
    """
    results = []
    for path in paths:
        files = sorted(path.glob("*.json")) if path.is_dir() else [path]
        for file in files:
            result = _read(file)
            if result is not None:
                results.append((file, result))
            elif not path.is_dir():
                raise ResultError(f"{file} is no result file of version '{FORMAT}': make it with scripts/reproduce.sh")
    return results


def _read(path: Path) -> Optional[Result]:
    """A result; None for JSON of another kind."""
    value = read_json(path)
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        return None
    for key, inner in NEEDED.items():
        missing = [key] if key not in value else [f"{key}: {name}" for name in inner if name not in value[key]]
        if missing:
            raise ResultError(f"{path} lacks '{missing[0]}': make it again with scripts/reproduce.sh")
    return value
