"""Child processes that do not outlive their parent, and that end with the same signals."""

import os
import subprocess
import sys
import threading
import time
from typing import Any, Optional

from .command import Failure, Signalled
from .paths import SCRIPTS


def end_with_parent() -> None:
    """Ends this process when its parent is gone: a kill -9 of the parent reaches no child."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def end(*processes: "subprocess.Popen[bytes]", grace: float) -> None:
    """Ends processes that have not ended; ``grace`` seconds after SIGTERM they are killed."""
    for process in processes:
        process.terminate()  # of one that has ended it does nothing
    deadline = time.monotonic() + grace
    for process in processes:
        try:
            process.wait(max(0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_script(name: str, *options: Any, quiet: bool = False, needed: bool = False) -> None:
    """Runs a script of the project to its end; a signal that ends this process ends it, too.

    Args:
        quiet: whether to drop its stdout.
        needed: whether nothing can continue without it: its failure then ends this process, with its message alone.

    Raises:
        Failure: the script fails; its own message was shown.
        Signalled: this process was sent a signal.
    """
    output: Optional[int] = subprocess.DEVNULL if quiet else None
    with subprocess.Popen([str(word) for word in (SCRIPTS / name, *options)], stdout=output) as process:
        try:
            process.wait()
        except Signalled as ended:
            process.send_signal(ended.number)
            raise
    if process.returncode and needed:
        sys.exit(process.returncode)
    if process.returncode:
        raise Failure(f"{name} failed (status {process.returncode})")
