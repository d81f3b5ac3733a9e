"""GPUs and threads for runs that share a machine."""

import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, List, Sequence

from filelock import FileLock, Timeout

SECONDS_BETWEEN_TRIES = 1.0


def visible() -> List[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    import torch

    names = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return (names or [str(number) for number in range(torch.cuda.device_count())])[: torch.cuda.device_count()]


def folder() -> Path:
    """The folder of locks for this user's commands on this machine, or within this job of a cluster."""
    return Path(tempfile.gettempdir()) / f"fairseq_rope-{os.getuid()}" / os.environ.get("SLURM_JOB_ID", "gpus")


def threads(processes: int = 1) -> str:
    """The threads of each of so many processes on this machine; torchrun would give one to each of several."""
    import torch

    return os.environ.get("OMP_NUM_THREADS") or str(max(torch.get_num_threads() // processes, 1))


@contextmanager
def one_of(devices: Sequence[str]) -> Iterator[None]:
    """Makes one of these GPUs the only visible one, as soon as no other block has it."""
    folder().mkdir(parents=True, exist_ok=True)
    while True:
        for device in devices:
            try:
                with FileLock(folder() / device, timeout=0):
                    os.environ["CUDA_VISIBLE_DEVICES"] = device
                    yield
                    return
            except Timeout:
                continue
        time.sleep(SECONDS_BETWEEN_TRIES)
