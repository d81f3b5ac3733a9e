"""The checkpoints of a run: its progress, and the repair after a kill."""

import re
import shutil
from pathlib import Path
from typing import List, Tuple

from ..command import Failure, say
from ..files import replacing

LAST = "checkpoint_last.pt"


def by_updates(folder: Path) -> List[Tuple[int, Path]]:
    """The checkpoints that fairseq names by epoch and updates, with their updates, newest first."""
    matches = [(re.fullmatch(r"checkpoint_\d+_(\d+)\.pt", path.name), path) for path in folder.glob("checkpoint_*.pt")]
    return sorted(((int(match[1]), path) for match, path in matches if match), reverse=True)


def newest_updates(folder: Path) -> int:
    """Updates of the newest checkpoint, by its name; 0 if there is none."""
    return next((updates for updates, _ in by_updates(folder)), 0)


def reached(folder: Path) -> int:
    """Updates of the last checkpoint, whatever its name; 0 if there is none.

    Raises:
        Failure: the checkpoint cannot be loaded.
    """
    last = folder / LAST
    return max(newest_updates(folder), updates_in(last) if last.is_file() else 0)


def updates_in(path: Path) -> int:
    """The number of updates recorded in a checkpoint.

    Raises:
        Failure: the checkpoint cannot be loaded.
    """
    from fairseq_rope.checkpoints.files import CheckpointError, load_checkpoint  # imports fairseq

    try:
        history = load_checkpoint(path).get("optimizer_history") or [{}]
    except CheckpointError as error:
        raise Failure(str(error)) from None
    return int(history[-1].get("num_updates", 0))


def repair(folder: Path) -> None:
    """Makes training continue from the newest checkpoint that loads.

    A kill while fairseq writes leaves a damaged file. Checkpoints by updates that are newer than the first
    one that loads are renamed to ``*.damaged``.

    Raises:
        Failure: no checkpoint loads.
    """
    for _, path in by_updates(folder):
        if _loads(path):
            break
        say(f"{path.name} is damaged: it is renamed to {path.name}.damaged")
        path.rename(f"{path}.damaged")
    last, newest = folder / LAST, by_updates(folder)
    if (last.is_file() and _loads(last)) or not (last.is_file() or newest):
        return
    if not newest:
        raise Failure(f"{last} is damaged and there is no other checkpoint: remove {folder.parent} and train again")
    say(f"{last} is {'damaged' if last.is_file() else 'missing'}: going back to {newest[0][1].name}")
    copy(newest[0][1], last)


def _loads(path: Path) -> bool:
    try:
        updates_in(path)
    except Failure:
        return False
    return True


def keep_last(folder: Path) -> int:
    """Names the last checkpoint by its updates, which fairseq omits at the end of an epoch; returns the updates.

    Raises:
        Failure: there is no checkpoint.
    """
    last = folder / LAST
    if not last.is_file():
        raise Failure("fairseq-train ended before its first checkpoint: choose a smaller --save-every")
    updates = updates_in(last)
    if updates not in dict(by_updates(folder)):
        copy(last, folder / f"checkpoint_0_{updates}.pt")
    return updates


def copy(source: Path, target: Path) -> None:
    with source.open("rb") as content, replacing(target) as file:
        shutil.copyfileobj(content, file, 1 << 20)
