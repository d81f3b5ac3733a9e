"""A model's positions in a few numbers: TUPE's correlations, or dimension and base of RoPE.

Every model has a summary; it is empty if there is nothing to draw. :mod:`.terms` defines the numbers.
"""

from typing import Any, Dict, List, Optional

from torch import Tensor

from ..positions.rope import RotaryEncoding
from ..positions.tupe import UntiedAbsoluteEncoding
from .sides import encoding_name, encoding_of, stacks_of
from .terms import tupe_correlations


def summary(model: Any, length: int) -> Dict[str, Dict[str, Any]]:
    """The numbers to draw for each side; it leaves out a side with another encoding or of fairseq's own model.

    Args:
        model: the result of :func:`.model_folder.load_model`.
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
