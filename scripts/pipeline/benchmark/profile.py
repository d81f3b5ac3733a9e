"""Where the time of a call goes, by operator of PyTorch."""

import time
from typing import Any, Callable, Dict

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from ..command import Failure
from .timing import synchronize

OPERATORS = 12
"""How many operators are named; the rest is summed up."""


def shares(call: Callable[[], Any], device: torch.device) -> Dict[str, str]:
    """The share of each operator in the time that the device works during ``call``, the largest first.

    On a GPU, ``busy`` is how much of the call's time the device works at all: below 100% it waits for the CPU, whose
    work the profiler makes slower.

    Raises:
        Failure: the profiler cannot see the GPU.
    """
    on_gpu = device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]
    call()
    synchronize(device)
    with profile(activities=activities) as profiler:
        start = time.perf_counter()
        call()
        synchronize(device)
        seconds = time.perf_counter() - start
    # a kernel has an entry of its own, and its time also counts for the operator that started it
    times: Dict[str, float] = {}
    for event in profiler.key_averages():
        if event.device_type == DeviceType.CPU:
            own = event.self_device_time_total if on_gpu else event.self_cpu_time_total
            times[event.key] = times.get(event.key, 0.0) + own
    total = sum(times.values())
    if not total:
        raise Failure("the profiler sees no work of the device: leave out --profile")
    largest = sorted(times, key=lambda name: -times[name])[:OPERATORS]
    found = {"busy": f"{total / 1e6 / seconds:.1%}"} if on_gpu else {}
    found.update({name: f"{times[name] / total:.1%}" for name in largest if times[name]})
    return {**found, "the rest": f"{1 - sum(times[name] for name in largest) / total:.1%}"}
