"""Measures peak memory in a separate process."""

import contextlib
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Callable, Dict
from unittest.mock import patch

import torch

from ..command import Failure
from . import quiet

STEPS = 3
MIB = 1 << 20
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def resident(field: str) -> int:
    """Bytes of this process in memory: ``VmRSS`` is the present value, ``VmHWM`` the peak so far.

    ``ru_maxrss`` would begin with the parent's value.
    """
    lines = STATUS.read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def measure(
    build: Callable[..., Callable[[], Any]], device: torch.device, threads: int, *arguments: Any
) -> Dict[str, float]:
    """Peak memory of the first steps that ``build(*arguments)`` makes, in all and above the memory before the steps.

    On a CPU it is the memory of the process; on a GPU, that of the tensors there.
    """
    torch.set_num_threads(threads)
    step = build(*arguments)
    cuda = device.type == "cuda"
    if cuda:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
    else:
        with contextlib.suppress(OSError):
            RESET.write_text("5")  # the peak so far is forgotten
        before = resident("VmRSS")
    with patch("torch.cuda.reset_peak_memory_stats"):  # fairseq's Trainer forgets the peak at the end of each step
        for _ in range(STEPS):
            step()
    peak = torch.cuda.max_memory_allocated() if cuda else resident("VmHWM")
    return {"peak MiB": round(peak / MIB), "peak MiB above the model": round((peak - before) / MIB)}


def peak_memory(build: Callable[..., Callable[[], Any]], device: torch.device, *arguments: Any) -> Dict[str, float]:
    """:func:`measure` in a new process; ``build`` is a function of a module.

    Raises:
        Failure: the process was killed.
    """
    torch.cuda.empty_cache()
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=quiet) as pool:
        try:
            return pool.submit(measure, build, device, torch.get_num_threads(), *arguments).result()
        except BrokenProcessPool:
            raise Failure("the process whose memory was measured was killed: out of memory?") from None
