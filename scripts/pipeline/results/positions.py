"""``positions.json`` of a run: what the report draws of its model's positions. Reading it needs no fairseq.

::

    python -m pipeline.results.positions RUN [--out FILE] [--length N]

writes it. RUN is a model folder, as ``scripts/average.sh`` makes it. Any model has such a file; it is empty where there
is nothing to draw. What the numbers are is said in :mod:`fairseq_rope.inspection.terms`.
"""

import argparse
import logging
import sys
from pathlib import Path
from typing import Any, Dict, Optional, Sequence

from ..files import read_json, sha256
from .file import ResultError, write_result

NAME = "positions.json"
CHECKPOINT = "checkpoint.pt"
LENGTH = 32  # positions of the correlations
FORMAT = "fairseq_rope positions 1"
"""The entry ``format``. Beside it are ``checkpoint`` (:func:`digest`), and ``encoder`` and ``decoder`` where there is
something to draw: ``encoding``, and either ``correlations`` (heads x queries x keys, null where a query does not see a
key) or ``dim``, ``base`` and ``stretch`` of RoPE."""


def digest(checkpoint: Path) -> str:
    """By which a summary of this checkpoint is told from one of another."""
    return sha256(checkpoint)[:16]


def write_positions(run: Path, out: Path, length: int = LENGTH) -> Dict[str, str]:
    """Writes the file; returns the encoding of each side that there is something to draw of.

    Args:
        run: a model folder.
        out: the file.
        length: positions of the correlations, at most; a table may have fewer.

    Raises:
        ValueError: a length below 1, or a file of the run is missing or cannot be used.
    """
    from fairseq_rope.checkpoints.model_folder import load_model
    from fairseq_rope.inspection.summary import summary

    sides = summary(load_model(run), length)
    write_result({"format": FORMAT, "checkpoint": digest(run / CHECKPOINT), **sides}, out)
    return {side: entry["encoding"] for side, entry in sides.items()}


def position_entry(run: Path) -> Dict[str, Any]:
    """The entry ``positions`` of a result file; nothing if the run has no summary.

    Raises:
        ResultError: the summary is damaged, or of another checkpoint than the run's.
    """
    path, checkpoint = run / NAME, run / CHECKPOINT
    if not path.is_file():
        return {}
    remedy = f"run python -m pipeline.results.positions {run} again, with scripts/ in PYTHONPATH"
    try:
        summary = read_json(path)
    except ValueError:
        raise ResultError(f"{path} is damaged: {remedy}") from None
    if not isinstance(summary, dict) or summary.get("format") != FORMAT:
        raise ResultError(f"{path} is no summary of version '{FORMAT}': {remedy}")
    if checkpoint.is_file() and digest(checkpoint) != summary["checkpoint"]:
        raise ResultError(f"{path} is of another checkpoint than {checkpoint}: {remedy}")
    return {"positions": {key: value for key, value in summary.items() if key != "format"}}


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(prog="positions", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", type=Path, help="model folder of a run")
    parser.add_argument("--out", type=Path, help=f"JSON file to write (default: RUN/{NAME})")
    parser.add_argument("--length", type=int, default=LENGTH, help=f"positions, at most (default: {LENGTH})")
    args = parser.parse_args(argv)
    out = args.out or args.run / NAME
    try:
        encodings = write_positions(args.run, out, args.length)
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    drawn = ", ".join(f"{side} {encoding}" for side, encoding in encodings.items())
    print(f"{out}: {drawn or 'nothing to draw'}")


if __name__ == "__main__":
    logging.disable(logging.INFO)  # of fairseq
    main()
