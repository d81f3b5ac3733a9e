"""Describes the machine, and measures the rate at which it multiplies matrices."""

import math
import os
import platform
import time
from functools import partial
from typing import Any, Callable, Dict, Iterable, List

import torch

from fairseq_rope import products

from ..provenance import CPU_INFO, cpu_model
from .timing import digits, seconds_of

PRECISIONS = {"fp32": torch.float32, "bf16": torch.bfloat16, "autocast": torch.bfloat16}
"""Name of a precision, to the type of its matrix products."""

SIZES = {"cpu": (256, 512, 1024, 2048), "cuda": (1024, 2048, 4096, 8192)}
SECONDS = 1.0  # seconds of multiplying, for each size


def describe(device: torch.device) -> Dict[str, Any]:
    """The machine: processor, cores, threads in use, instruction set of PyTorch's kernels, versions, GPU."""
    cpu = cpu_model() or platform.processor() or platform.machine()
    machine: Dict[str, Any] = {"cpu": cpu, "cores": os.cpu_count(), "threads": torch.get_num_threads()}
    machine["instructions"] = torch.backends.cpu.get_cpu_capability()
    if CPU_INFO.exists() and "amx_bf16" in CPU_INFO.read_text(encoding="utf-8"):
        machine["instructions"] += " AMX"
    if device.type == "cuda":
        machine["gpu"] = torch.cuda.get_device_name(device)
        machine["cuda"] = torch.version.cuda
    else:
        machine["products"] = products.library()
        machine["freed memory"] = "kept" if os.environ.get("MALLOC_MMAP_MAX_") == "0" else "given back"
    return {**machine, "python": platform.python_version(), "torch": torch.__version__}


def matmul_peak(dtype: torch.dtype, device: torch.device) -> float:
    """The best rate of a product of two square matrices, in FLOP/s, by the better of PyTorch's two libraries.

    The sizes end where one product takes longer than :data:`SECONDS`: a CPU without products in half precision needs
    minutes for the largest.
    """
    best = 0.0
    functions: List[Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = [torch.mm]
    if device.type == "cpu" and dtype == torch.float and products.is_available():
        functions.append(products.onednn)
    for size in SIZES[device.type]:
        a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        fastest, end = math.inf, time.perf_counter() + SECONDS
        while fastest == math.inf or time.perf_counter() < end:
            for multiply in functions:
                fastest = min(fastest, seconds_of(partial(multiply, a, b), device))
        best = max(best, 2 * size**3 / fastest)
        if fastest > SECONDS:
            break
    return best


def peaks(precisions: Iterable[str], device: torch.device) -> Dict[str, float]:
    """:func:`matmul_peak` for each precision, in TFLOP/s."""
    measured: Dict[torch.dtype, float] = {}
    for precision in precisions:
        dtype = PRECISIONS[precision]
        if dtype not in measured:
            measured[dtype] = digits(matmul_peak(dtype, device) / 1e12)
    return {precision: measured[PRECISIONS[precision]] for precision in precisions}
