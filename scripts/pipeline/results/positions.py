"""``positions.json`` of a run: what ``position_summary.py`` finds in its model, for the result file. No fairseq."""

import hashlib
import json
from pathlib import Path
from typing import Any, Dict

from .file import ResultError

NAME = "positions.json"
FORMAT = "fairseq_rope positions 1"
"""The entry ``format``. Beside it are ``checkpoint`` (:func:`digest`), and ``encoder`` and ``decoder`` where there is
something to draw: ``encoding``, and either ``correlations`` (heads x queries x keys, null where a query does not see a
key) or ``dim``, ``base`` and ``stretch`` of RoPE."""

BLOCK = 2**20  # bytes that are read at once


def digest(checkpoint: Path) -> str:
    """By which a summary of this checkpoint is told from one of another."""
    total = hashlib.sha256()
    with checkpoint.open("rb") as file:
        while block := file.read(BLOCK):
            total.update(block)
    return total.hexdigest()[:16]


def position_entry(run: Path) -> Dict[str, Any]:
    """The entry ``positions`` of a result file; nothing if the run has no summary.

    Raises:
        ResultError: the summary is damaged, or of another checkpoint than the run's.
    """
    path, checkpoint = run / NAME, run / "checkpoint.pt"
    if not path.is_file():
        return {}
    remedy = f"run python -m fairseq_rope.inspection.summary {run} again"
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise ResultError(f"{path} is damaged: {remedy}") from None
    if not isinstance(summary, dict) or summary.get("format") != FORMAT:
        raise ResultError(f"{path} is no summary of version '{FORMAT}': {remedy}")
    if checkpoint.is_file() and digest(checkpoint) != summary["checkpoint"]:
        raise ResultError(f"{path} is of another checkpoint than {checkpoint}: {remedy}")
    return {"positions": {key: value for key, value in summary.items() if key != "format"}}
