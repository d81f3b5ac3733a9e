"""``positions.json`` of a run: the numbers about its model's positions that the report draws.

It is empty if there is nothing to draw. :mod:`fairseq_rope.inspection.terms` defines the numbers. Reading the file
needs no fairseq.
"""

from pathlib import Path
from typing import Any, Dict

from ..command import Failure
from ..files import read_json, sha256, write_json
from .file import ResultError

NAME = "positions.json"
CHECKPOINT = "checkpoint.pt"
LENGTH = 32  # positions of the correlations
FORMAT = "fairseq_rope positions 1"
"""The entry ``format``. Beside it are ``checkpoint`` (:func:`digest`), and ``encoder`` and ``decoder`` where there is
something to draw: ``encoding``, and either ``correlations`` (heads x queries x keys, null where a query does not see a
key) or ``dim``, ``base`` and ``stretch`` of RoPE."""


def digest(checkpoint: Path) -> str:
    """A short hash that tells a summary of this checkpoint from others."""
    return sha256(checkpoint)[:16]


def write_positions(run: Path) -> None:
    """Writes the file into a model folder.

    Raises:
        Failure: a file of the run is missing or cannot be used.
    """
    from fairseq_rope.checkpoints.model_folder import load_model
    from fairseq_rope.inspection.summary import summary

    try:
        sides = summary(load_model(run), LENGTH)
    except ValueError as error:
        raise Failure(str(error)) from None
    write_json(run / NAME, {"format": FORMAT, "checkpoint": digest(run / CHECKPOINT), **sides})


def position_entry(run: Path) -> Dict[str, Any]:
    """The entry ``positions`` of a result file; empty if the run has no summary.

    Raises:
        ResultError: the summary is damaged, or belongs to another checkpoint.
    """
    path, checkpoint = run / NAME, run / CHECKPOINT
    if not path.is_file():
        return {}
    remedy = "remove it and run scripts/reproduce.sh again"
    summary = read_json(path, remedy)
    if not isinstance(summary, dict) or summary.get("format") != FORMAT:
        raise ResultError(f"{path} is no summary of version '{FORMAT}': {remedy}")
    if checkpoint.is_file() and digest(checkpoint) != summary.get("checkpoint"):
        raise ResultError(f"{path} is of another checkpoint than {checkpoint}: {remedy}")
    return {"positions": {key: value for key, value in summary.items() if key != "format"}}
