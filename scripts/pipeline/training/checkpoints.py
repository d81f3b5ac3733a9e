"""The checkpoints of a run: its progress, and the repair after a kill."""

from pathlib import Path
from typing import List, Optional, Tuple

from ..command import Failure, as_failure, say
from ..files import copy
from ..settings import UPDATES

LAST = "checkpoint_last.pt"


def by_updates(folder: Path) -> List[Tuple[int, Path]]:
    """The checkpoints that fairseq names by epoch and updates, with their updates, newest first."""
    matches = [(UPDATES.fullmatch(path.name), path) for path in folder.glob("checkpoint_*.pt")]
    return sorted(((int(match[1]), path) for match, path in matches if match), reverse=True)


def newest_updates(folder: Path) -> int:
    """Updates of the newest checkpoint, by its name; 0 if there is none."""
    return next((updates for updates, _ in by_updates(folder)), 0)


def updates_in(path: Path) -> int:
    """The number of updates recorded in a checkpoint; raises Failure if the checkpoint cannot be loaded."""
    from fairseq_rope.checkpoints.files import load_checkpoint  # imports fairseq

    with as_failure():
        history = load_checkpoint(path).get("optimizer_history") or [{}]
    return int(history[-1].get("num_updates", 0))


def repair(folder: Path, save_every: int) -> int:
    """Makes training continue from the newest checkpoint that loads, with those before it that it would have; returns
    the updates so far.

    A kill while fairseq writes leaves a damaged file, or one of more updates than ``checkpoint_last.pt``, which fairseq
    copies from it. Checkpoints by updates that are newer than the first one that loads are renamed to ``*.damaged``.
    Files that fairseq did not write to the end are removed, because they may fill the disk. So is the checkpoint of an
    earlier end between two of them; and the last one gets the name by its updates that a kill kept from it.

    Args:
        save_every: updates from one checkpoint to the next.
    """
    for begun in folder.glob("*.pt.tmp"):
        begun.unlink()
    for _, path in by_updates(folder):
        if _loaded_updates(path) is not None:
            break
        say(f"{path.name} is damaged: it is renamed to {path.name}.damaged")
        path.rename(f"{path}.damaged")
    last, others = folder / LAST, by_updates(folder)
    reached, state = _loaded_updates(last), "damaged" if last.is_file() else "missing"
    if others and (reached is None or reached < others[0][0]):
        say(f"{LAST} is {state if reached is None else 'older'}: training goes on from {others[0][1].name}")
        reached, newest = others[0]
        copy(newest, last)
    elif reached is None and last.is_file():
        raise Failure(f"{last} is damaged and there is no other checkpoint: remove {folder.parent} and train again")
    for updates, path in others:
        if updates % save_every:
            path.unlink()
    if reached and not reached % save_every and reached not in dict(others):
        copy(last, folder / f"checkpoint_0_{reached}.pt")
    return reached or 0


def _loaded_updates(path: Path) -> Optional[int]:
    """The updates of a checkpoint; None if it is missing or does not load."""
    try:
        return updates_in(path)
    except Failure:
        return None


def keep_last(folder: Path) -> int:
    """Names the last checkpoint by its updates, which fairseq omits at the end of an epoch; returns the updates."""
    last = folder / LAST
    if not last.is_file():
        raise Failure("fairseq-train ended before its first checkpoint: choose a smaller --save-every")
    updates = updates_in(last)
    if updates not in dict(by_updates(folder)):
        copy(last, folder / f"checkpoint_0_{updates}.pt")
    return updates
