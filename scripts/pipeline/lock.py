"""Lets only one command at a time work in a folder."""

import logging
import os
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
    """Holds the lock of ``folder``, and makes the folder if it is missing.

    A folder that nobody can write to has no lock: finished work can be read there, and writing fails by itself.
    """
    if folder.is_dir() and not os.access(folder, os.W_OK):
        yield
        return
    lock = FileLock(folder / NAME)
    try:
        lock.acquire(timeout=min(wait, WAIT))
    except Timeout:
        if wait <= WAIT:
            raise Failure(f"another command works in {folder}: wait for it, or end it") from None
        say(f"waiting for another command that works in {folder}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()
