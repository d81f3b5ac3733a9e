"""What the report draws of a model's positions, as a small file: TUPE's correlations, or dimension and base of RoPE.

::

    python -m fairseq_rope.inspection.summary RUN [--out FILE] [--length N]

RUN is a model folder, as ``scripts/average.sh`` makes it. Any model has a summary; it is empty where there is nothing
to draw. The format is said in :mod:`.position_file`, what the numbers are in :mod:`.position_terms`.
"""

import argparse
import logging
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from torch import Tensor

from pipeline.results.file import write_result
from pipeline.results.positions import FORMAT, NAME, digest

from ..checkpoints.model_folder import CHECKPOINT, load_model
from ..options import SIDES
from ..positions.rope import RotaryEncoding
from ..positions.tupe import UntiedAbsoluteEncoding
from .terms import encoding_name, tupe_correlations

LENGTH = 32


def summary(model: Any, length: int = LENGTH) -> Dict[str, Dict[str, Any]]:
    """What there is to draw of each side; a side of another encoding, or of fairseq's own model, is left out.

    Args:
        model: as from :func:`.model_folder.load_model`.
        length: positions of the correlations, at most; a table may have fewer.

    Raises:
        ValueError: a length below 1.
    """
    if length < 1:
        raise ValueError(f"--length must be at least 1, not {length}")
    sides: Dict[str, Dict[str, Any]] = {}
    for side in SIDES:
        encoding = getattr(getattr(model, side), "position", None)
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


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(prog="position_summary", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", type=Path, help="model folder of a run")
    parser.add_argument("--out", type=Path, help=f"JSON file to write (default: RUN/{NAME})")
    parser.add_argument("--length", type=int, default=LENGTH, help=f"positions, at most (default: {LENGTH})")
    args = parser.parse_args(argv)
    out = args.out or args.run / NAME
    try:
        sides = summary(load_model(args.run), args.length)
        write_result({"format": FORMAT, "checkpoint": digest(args.run / CHECKPOINT), **sides}, out)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    found = ", ".join(f"{side} {entry['encoding']}" for side, entry in sides.items())
    print(f"{out}: {found or 'nothing to draw'}")


if __name__ == "__main__":
    logging.disable(logging.INFO)  # of fairseq
    main()
