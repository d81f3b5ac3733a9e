"""Lets only one command at a time work in a folder."""

import logging
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

from filelock import FileLock, Timeout

from .command import Failure, say

logging.getLogger("filelock").setLevel(logging.WARNING)  # or it tells the log of a training of each lock
NAME = ".lock"
WAIT = 10.0
"""Seconds to wait for another command before giving up: a moment, not a training."""

AS_LONG_AS_IT_TAKES = float("inf")


@contextmanager
def locked(folder: Path, wait: float = WAIT) -> Iterator[None]:
    """Holds the lock of ``folder``, and makes the folder if it is missing; one that stays empty goes.

    A folder that nobody can write to has no lock: finished work can be read there, and writing fails by itself.

    Raises:
        Failure: another command holds the lock for longer than ``wait`` seconds.
    """
    if folder.is_dir() and not os.access(folder, os.W_OK):
        yield
        return
    made = not folder.is_dir()
    lock = FileLock(folder / NAME)
    try:
        _acquire(lock, folder, min(wait, WAIT))
    except Timeout:
        if wait <= WAIT:
            raise Failure(f"another command works in {folder}: wait for it, or end it") from None
        say(f"waiting for another command that works in {folder}")
        _acquire(lock, folder, -1)
    try:
        yield
    finally:
        if made and [path.name for path in folder.glob("*")] == [NAME]:  # a command that fails at once leaves none
            shutil.rmtree(folder)
        lock.release()


def _acquire(lock: FileLock, folder: Path, timeout: float) -> None:
    """Acquires the lock, also if its folder is missing, or another command removes it because it stayed empty."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(timeout=timeout)
            return
        except FileNotFoundError:
            continue
