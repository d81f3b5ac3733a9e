"""Child processes that do not outlive their parent."""

import os
import subprocess
import threading
import time


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
