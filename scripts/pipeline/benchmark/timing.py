"""Measures time: candidates take turns, their times are divided round by round, and operators have their shares."""

import statistics
import time
from typing import Any, Callable, Dict, List, Sequence

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from tqdm import tqdm

from ..command import Failure

OPERATORS = 12
"""How many operators :func:`shares` names; the rest is summed up."""

Seconds = Dict[str, List[float]]
"""Name of a candidate, to its time in each round."""


def synchronize(device: torch.device) -> None:
    """Waits until the device has done its work; a CPU works at once."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(call: Callable[[], Any], device: torch.device) -> float:
    """The time of a call."""
    synchronize(device)
    start = time.perf_counter()
    call()
    synchronize(device)
    return time.perf_counter() - start


def interleaved(
    candidates: Dict[str, Callable[[], Any]], repeats: int, device: torch.device, warm_up: int = 1
) -> Seconds:
    """Seconds of each call of each candidate; the candidates take turns ``repeats`` times, after ``warm_up`` calls.

    Every other round goes backwards, so no candidate always follows the same neighbour.
    """
    seconds: Seconds = {name: [] for name in candidates}
    for number in tqdm(range(warm_up + repeats), unit=" rounds", disable=None):
        names = list(candidates)
        for name in reversed(names) if number % 2 else names:
            seconds[name].append(seconds_of(candidates[name], device))
    return {name: times[warm_up:] for name, times in seconds.items()}


def digits(value: float, count: int = 4) -> float:
    """``value`` with this number of significant digits."""
    return float(f"{value:.{count}g}")


def spread(values: Sequence[float]) -> List[float]:
    """First quartile, median and third quartile."""
    return [digits(x) for x in statistics.quantiles(values, n=4, method="inclusive")]


def compared(seconds: Seconds, baseline: str) -> Dict[str, Dict[str, Any]]:
    """Each candidate's median time, and how many times as fast as ``baseline`` it is, by rounds.

    Returns:
        Columns of a table: ``seconds``; ``times as fast``, the median of baseline's time / candidate's time of the same
        round, more than 1 being faster; and the quartiles of both.
    """
    columns = {}
    for name, times in seconds.items():
        low, middle, high = spread(times)
        slower, ratio, faster = spread([base / own for base, own in zip(seconds[baseline], times)])
        columns[name] = {
            "seconds": middle,
            "quartiles (s)": f"{low} to {high}",
            "times as fast": ratio,
            "quartiles": f"{slower} to {faster}",
        }
    return columns


def shares(call: Callable[[], Any], device: torch.device) -> Dict[str, str]:
    """The share of each operator in the time that the device works during ``call``, the largest first.

    On a GPU, ``busy`` is how much of the call's time the device works at all: below 100% it waits for the CPU, whose
    work the profiler makes slower.

    Raises:
        Failure: the profiler cannot see the GPU.
    """
    on_gpu = device.type == "cuda"
    call()
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]) as profiler:
        seconds = seconds_of(call, device)
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
