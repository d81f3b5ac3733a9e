"""Measures time, memory and the rate of matrix products; candidates take turns, so that the machine's moods cancel."""

import contextlib
import gc
import logging
import math
import os
import platform
import statistics
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, Sequence
from unittest.mock import patch

import torch
from torch.profiler import profile
from tqdm import tqdm

from fairseq_rope import products

from ..provenance import cpu_info, cpu_model

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "autocast": torch.bfloat16}
"""Name of a precision, to the type of its matrix products."""

SIZES = {"cpu": (256, 512, 1024, 2048), "cuda": (1024, 2048, 4096, 8192)}
SECONDS = 1.0  # seconds of multiplying, for each size

OPERATORS = 12  # that a profile names

STEPS = 3  # whose memory is measured
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")

Seconds = Dict[str, List[float]]
"""Name of a candidate, to its time in each round."""


def quiet() -> None:
    """Shows only errors from now on: no reports of fairseq, no warnings of PyTorch and hydra about fairseq's calls."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")


def seconds_of(call: Callable[[], Any], device: torch.device) -> float:
    """The time of a call, and of the work that it gives to a GPU."""
    wait = partial(torch.cuda.synchronize, device) if device.type == "cuda" else lambda: None
    wait()
    start = time.perf_counter()
    call()
    wait()
    return time.perf_counter() - start


def interleaved(
    candidates: Mapping[str, Callable[[], Any]], repeats: int, device: torch.device, warm_up: int = 1
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


def digits(value: float) -> float:
    """``value`` with four significant digits."""
    return float(f"{value:.4g}")


def compared(seconds: Seconds, baseline: str) -> Dict[str, Dict[str, Any]]:
    """Each candidate's median time, and how many times as fast as ``baseline`` it is, by rounds.

    Returns:
        Columns of a table: ``seconds``; ``times as fast``, the median of baseline's time / candidate's time of the same
        round, more than 1 being faster; and the quartiles of both.
    """

    def quartiles(values: Sequence[float]) -> List[float]:
        return [digits(value) for value in statistics.quantiles(values, n=4, method="inclusive")]

    columns = {}
    for name, times in seconds.items():
        low, middle, high = quartiles(times)
        slower, ratio, faster = quartiles([base / own for base, own in zip(seconds[baseline], times)])
        columns[name] = {
            "seconds": middle,
            "quartiles (s)": f"{low} to {high}",
            "times as fast": ratio,
            "quartiles": f"{slower} to {faster}",
        }
    return columns


def profiled(name: str, call: Callable[[], Any], device: torch.device) -> None:
    """Prints which operators take the time of a call, by PyTorch's profiler; on a GPU, its time and the CPU's."""
    call()
    with profile() as profiler:
        seconds = seconds_of(call, device)
    kind = "device" if device.type == "cuda" else "cpu"
    table = profiler.key_averages().table(sort_by=f"self_{kind}_time_total", row_limit=OPERATORS)
    print(f"{name}, {seconds:.4f} s\n{table}")


def peaks(precisions: Iterable[str], device: torch.device) -> Dict[str, float]:
    """For each precision, the best rate of a product of two square matrices, in TFLOP/s.

    Of half precision, it is that of fp32 on a CPU without instructions for it, where products are made in fp32.
    """
    types = {precision: PRECISIONS[precision] for precision in precisions}
    if device.type == "cpu":
        types = {name: dtype if products.has_instructions(dtype) else torch.float for name, dtype in types.items()}
    measured = {dtype: digits(_matmul_peak(dtype, device) / 1e12) for dtype in set(types.values())}
    return {precision: measured[dtype] for precision, dtype in types.items()}


def _matmul_peak(dtype: torch.dtype, device: torch.device) -> float:
    """The best rate in FLOP/s, by the better of PyTorch's two libraries."""
    best = 0.0
    functions: List[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [torch.mm]
    if device.type == "cpu" and dtype == torch.float and products.is_available():
        functions.append(products.onednn)
    for size in SIZES[device.type]:
        a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        fastest, end = math.inf, time.perf_counter() + SECONDS
        while fastest == math.inf or time.perf_counter() < end:
            fastest = min(fastest, *(seconds_of(partial(multiply, a, b), device) for multiply in functions))
        best = max(best, 2 * size**3 / fastest)
    return best


def peak_memory(build: Callable[..., Callable[[], Any]], device: torch.device, *arguments: Any) -> Dict[str, float]:
    """Peak memory of the first steps that ``build(*arguments)`` makes, a function of a module, in a new process: in all
    and above the memory before the steps. On a CPU it is that of the process; on a GPU, that of the tensors there."""
    gc.collect()  # models have cycles
    torch.cuda.empty_cache()
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=quiet) as pool:
        return pool.submit(_measure_memory, build, device, torch.get_num_threads(), *arguments).result()


def _measure_memory(
    build: Callable[..., Callable[[], Any]], device: torch.device, threads: int, *arguments: Any
) -> Dict[str, float]:
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
        before = _resident("VmRSS")
    with patch("torch.cuda.reset_peak_memory_stats"):  # fairseq's Trainer forgets the peak at the end of each step
        for _ in range(STEPS):
            step()
    peak = torch.cuda.max_memory_allocated() if cuda else _resident("VmHWM")
    return {"peak MiB": round(peak / 2**20), "peak MiB above the model": round((peak - before) / 2**20)}


def _resident(field: str) -> int:
    """Bytes of this process in memory: ``VmRSS`` is the present value, ``VmHWM`` the peak so far; ``ru_maxrss`` would
    begin with the parent's value."""
    lines = STATUS.read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def machine(device: torch.device) -> Dict[str, Any]:
    """Processor, cores, threads in use, instruction set of PyTorch's kernels, versions, GPU."""
    cpu = cpu_model() or platform.processor() or platform.machine()
    found: Dict[str, Any] = {"cpu": cpu, "cores": os.cpu_count(), "threads": torch.get_num_threads()}
    found["instructions"] = torch.backends.cpu.get_cpu_capability()
    if "amx_bf16" in cpu_info():
        found["instructions"] += " AMX"
    if device.type == "cuda":
        found["gpu"], found["cuda"] = torch.cuda.get_device_name(device), torch.version.cuda
    else:
        found["products"] = products.library()
        found["freed memory"] = "kept" if os.environ.get("MALLOC_MMAP_MAX_") == "0" else "given back"
    return {**found, "python": platform.python_version(), "torch": torch.__version__}
