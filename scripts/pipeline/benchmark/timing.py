"""Measures candidates that take turns, and divides their times round by round."""

import statistics
import time
from typing import Any, Callable, Dict, List, Sequence

import torch
from tqdm import tqdm

Seconds = Dict[str, List[float]]
"""Name of a candidate, to its time in each round."""


def synchronize(device: torch.device) -> None:
    """Waits until the device has done its work; a CPU works at once."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


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
            synchronize(device)
            start = time.perf_counter()
            candidates[name]()
            synchronize(device)
            if number >= warm_up:
                seconds[name].append(time.perf_counter() - start)
    return seconds


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
