"""Lets only one command at a time work in a folder."""

import fcntl
import os
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterator, List, Optional

from .command import Failure, say, script_name

NAME = ".lock"
WAIT = 10.0
"""Seconds to wait for another command before giving up: a moment, not a training."""

AS_LONG_AS_IT_TAKES = float("inf")


@contextmanager
def locked(folder: Path, wait: float = WAIT) -> Iterator[Optional[int]]:
    """Holds the lock of ``folder``, and makes the folder if it is missing; yields the lock's file descriptor.

    A folder that was made here, and that the block leaves empty, vanishes: a command that fails at once leaves none.

    A child process that gets the descriptor (``pass_fds``) also holds the lock: if a killed command leaves a process
    behind, that process keeps others out. If the file system has no locks, nobody is kept out. A folder that nobody can
    write to has no lock, and no descriptor: finished work can be read there, and writing fails by itself.

    Raises:
        Failure: another command holds the lock for longer than ``wait`` seconds.
    """
    if folder.is_dir() and not os.access(folder, os.W_OK):
        yield None
        return
    deadline = time.monotonic() + wait
    waiting, made = False, not folder.is_dir()
    while (descriptor := _try(folder)) is None:
        if wait > WAIT and not waiting:
            say(f"waiting for another command that works in {folder} ({_holder(folder)})")
            waiting = True
        if time.monotonic() > deadline:
            holder = _holder(folder)
            raise Failure(f"another command works in {folder} ({holder}): wait for it, or end it")
        time.sleep(0.1)
    try:
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{script_name()}, process {os.getpid()}".encode(), 0)
        yield descriptor
    finally:
        if _is_here(folder, descriptor):  # and not the lock of a folder that was moved away
            (folder / NAME).unlink()
            if made:
                with suppress(OSError):
                    folder.rmdir()
        os.close(descriptor)


def _try(folder: Path) -> Optional[int]:
    """The descriptor of the lock, or None if somebody else has it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except FileNotFoundError:  # in between, the folder vanished
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:  # a file system without locks
        return descriptor
    if not _is_here(folder, descriptor):  # in between, it was released, or moved away with its folder
        os.close(descriptor)
        return None
    return descriptor


def _is_here(folder: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(folder / NAME), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _holder(folder: Path) -> str:
    """The command that has the lock, or the processes that it left behind when it was killed."""
    try:
        said = (folder / NAME).read_text() or "unknown"
    except OSError:
        return "unknown"
    if Path("/proc", said.rpartition(" ")[2]).exists():
        return said
    left = " ".join(_processes_with(folder / NAME))
    return f"process {left}, left by {said}" if left else said


def _processes_with(file: Path) -> List[str]:
    """The processes of this machine that have a file open, as far as the system shows them."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        with suppress(OSError):  # it has ended, or is of another user
            if link.samefile(file):
                found.add(link.parts[2])
    return sorted(found, key=int)
