"""Says whether a checkpoint can be loaded, and after how many updates it was written.

::

    python -m pipeline.training.checkpoint FILE
"""

import argparse
import logging
import sys
from pathlib import Path
from typing import Optional, Sequence


def count_updates(path: Path) -> int:
    """The updates that a checkpoint had; 0 if it does not say.

    Raises:
        CheckpointError: it cannot be loaded.
    """
    from fairseq_rope.checkpoints.files import load_checkpoint

    history = load_checkpoint(path).get("optimizer_history") or [{}]
    return int(history[-1].get("num_updates", 0))


def main(argv: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("checkpoint", metavar="FILE", type=Path)
    args = parser.parse_args(argv)
    try:
        print(count_updates(args.checkpoint))
    except ValueError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    logging.disable(logging.INFO)  # of fairseq
    main()
