"""One process of a training, as torchrun starts it: ``fairseq-train`` that ends with its launcher.

torchrun starts its workers again when one crashes. This helps only if there is a new checkpoint. Without one, a worker
gives up at once, so an error that comes back does not repeat.
"""

import os
import sys
from pathlib import Path

from ..processes import end_with_parent
from .checkpoints import newest_updates

STARTED_FROM = ".started_from"
"""A file in the run with the updates of its newest checkpoint when training began."""

GOING_ON = "fairseq-train ended before its time"


def main() -> None:
    end_with_parent()
    folder = Path(sys.argv[sys.argv.index("--save-dir") + 1])
    if int(os.environ.get("RANK", 0)) == 0:
        _check_progress(folder, restarts=int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)))
    from fairseq_cli.train import cli_main

    sys.argv[0] = "fairseq-train"
    cli_main()


def _check_progress(folder: Path, restarts: int) -> None:
    """Ends the process if it is a restart without a new checkpoint since the previous start."""
    note, updates = folder.parent / STARTED_FROM, newest_updates(folder)
    note.parent.mkdir(parents=True, exist_ok=True)
    if restarts:
        if updates <= int(note.read_text()):
            print("crashed again without a new checkpoint: it is not started once more", file=sys.stderr)
            sys.exit(1)
        print(f"{GOING_ON}: going on from update {updates}", file=sys.stderr, flush=True)
    note.write_text(str(updates))


if __name__ == "__main__":
    main()
