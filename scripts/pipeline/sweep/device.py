"""Runs a command on a GPU that no other command of this kind uses; waits until one is free.

::

    scripts/run.py pipeline.sweep.device 0,1,2 scripts/train.sh ...

The GPU stays reserved until the command has ended, even if its caller is killed.
"""

import os
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import List, Optional, Sequence, Tuple

from ..command import Failure
from ..lock import locked

SECONDS_BETWEEN_TRIES = 1.0


def visible() -> List[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    names = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return (names or [str(number) for number in range(torch.cuda.device_count())])[: torch.cuda.device_count()]


def folder() -> Path:
    """The folder of locks for this user's commands on this machine, or within this job of a cluster."""
    return Path(tempfile.gettempdir()) / f"fairseq_rope-{os.getuid()}" / os.environ.get("SLURM_JOB_ID", "gpus")


def take(devices: Sequence[str], stack: ExitStack) -> Tuple[str, Optional[int]]:
    """A free device and the descriptor of its lock, which ``stack`` holds; waits for one."""
    while True:
        for device in devices:
            with suppress(Failure):
                return device, stack.enter_context(locked(folder() / device, wait=0))
        time.sleep(SECONDS_BETWEEN_TRIES)


def main(devices: str, *command: str) -> None:
    with ExitStack() as stack:
        device, lock = take(devices.split(","), stack)
        if lock is not None:
            os.set_inheritable(lock, True)
        os.environ["CUDA_VISIBLE_DEVICES"] = device
        os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
