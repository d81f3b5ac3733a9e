"""Child processes: that none outlives its parent, and why one failed, in one line."""

import os
import re
import shutil
import subprocess
import threading
import time
from pathlib import Path

ERROR = re.compile(r"^[A-Za-z_.]*(Error|Exception|Exit|Interrupt)\b|: error: |^error: |No module named")
LAST_LINES = 400
LONGEST = 300
NO_REASON = "no reason given"
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


def last_error(text: str) -> str:
    """The last line of a log that gives a reason; torchrun's own lines give none."""
    lines = [re.sub(r"^\[rank\d+\]: ", "", line) for line in text.splitlines()[-LAST_LINES:]]
    errors = [line for line in lines if ERROR.search(line) and "ChildFailedError" not in line]
    return errors[-1][:LONGEST] if errors else NO_REASON


def last_error_in(log: Path) -> str:
    """The same for a log file, which may be missing, or cut because the disk is full."""
    said = last_error(log.read_text(encoding="utf-8", errors="replace") if log.is_file() else "")
    if said == NO_REASON and shutil.disk_usage(log.parent).free < LITTLE:
        return f"no room is left in {log.parent}: make room"
    return said
