"""The numbers about a model's positions that the report draws: the entry ``positions`` of a result file."""

from pathlib import Path
from typing import Any, Dict, List, Optional

from torch import Tensor

from fairseq_rope.checkpoints.model_folder import load_model
from fairseq_rope.inspection.sides import encoding_name, encoding_of, stacks_of
from fairseq_rope.inspection.terms import tupe_correlations
from fairseq_rope.positions.rope import RotaryEncoding
from fairseq_rope.positions.tupe import UntiedAbsoluteEncoding

from ..command import as_failure
from ..files import sha256

LENGTH = 32  # positions of the correlations


def positions_of(run: Path) -> Dict[str, Any]:
    """The entry for a model folder; :mod:`fairseq_rope.inspection.terms` defines the numbers.

    It has ``checkpoint``, a short hash, and ``encoder`` and ``decoder`` where there is something to draw: ``encoding``,
    and either ``correlations`` (heads x queries x keys, null where a query does not see a key) or ``dim``, ``base`` and
    ``stretch`` of RoPE.

    Raises:
        Failure: a file of the run is missing or cannot be used.
    """
    with as_failure():
        sides = summary(load_model(run), LENGTH)
    return {"checkpoint": sha256(run / "checkpoint.pt")[:16], **sides}


def summary(model: Any, length: int) -> Dict[str, Dict[str, Any]]:
    """The numbers to draw for each side; it leaves out a side with another encoding or of fairseq's own model.

    Args:
        model: the result of :func:`fairseq_rope.checkpoints.model_folder.load_model`.
        length: the largest number of positions; a table may have fewer.
    """
    sides: Dict[str, Dict[str, Any]] = {}
    for side in stacks_of(model):
        encoding = encoding_of(model, side)
        if isinstance(encoding, UntiedAbsoluteEncoding):
            values = tupe_correlations(model, side, min(length, encoding.stack.max_positions))
            sides[side] = {"encoding": encoding_name(model, side), "correlations": rounded(values)}
        elif isinstance(encoding, RotaryEncoding):
            divisor = encoding.options.scaling_factor if encoding.options.scaling == "linear" else 1.0
            rotation = {"dim": encoding.dim, "base": encoding.frequency_base(), "stretch": divisor}
            sides[side] = {"encoding": encoding_name(model, side), **rotation}
    return sides


def rounded(maps: Tensor) -> List[List[List[Optional[float]]]]:
    """``maps`` ``(H, T, T)`` with three significant digits; None for nan."""
    return [
        [[None if value != value else float(f"{value:.3g}") for value in row] for row in rows] for rows in maps.tolist()
    ]
