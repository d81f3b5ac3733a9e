"""Child processes: that none outlives its parent, and why one failed, in one line."""

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path

ERROR = re.compile(r"^[A-Za-z_.]*(Error|Exception|Exit|Interrupt)\b|: error: |^error: |No module named")
KILLED = re.compile(r"failed \(exitcode: -(\d+)\) local_rank")
"""What torchrun writes of a worker that a signal ended."""

LAST_LINES = 400
LONGEST = 300
LITTLE = 1 << 16
"""A disk with fewer free bytes counts as full."""


def end_with_parent() -> None:
    """Ends this process when its parent is gone: a kill -9 of the parent reaches no child."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def end(process: "subprocess.Popen[bytes]", grace: float) -> None:
    """Ends a process, if it has not ended; ``grace`` seconds after SIGTERM it is killed."""
    process.terminate()  # of one that has ended it does nothing
    try:
        process.wait(grace)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def last_error_in(log: Path, begin: int = 0) -> str:
    """The last line of a log, which may be missing, that gives a reason; torchrun's own lines name at most a signal.

    Args:
        begin: the bytes of earlier calls, which do not count.
    """
    text = log.read_bytes()[begin:].decode("utf-8", errors="replace") if log.is_file() else ""
    lines = [re.sub(r"^\[rank\d+\]: ", "", line) for line in text.splitlines()[-LAST_LINES:]]
    if errors := [line for line in lines if _gives_reason(line)]:
        ended = KILLED.search(errors[-1])
        return f"ended by {signal.Signals(int(ended[1])).name}" if ended else errors[-1][:LONGEST]
    is_full = shutil.disk_usage(log.parent).free < LITTLE  # which cuts the log
    return f"no room is left in {log.parent}: make room" if is_full else "no reason given"


def _gives_reason(line: str) -> bool:
    return bool(KILLED.search(line) or (ERROR.search(line) and "ChildFailedError" not in line))
