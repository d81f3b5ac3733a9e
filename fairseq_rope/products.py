"""Products on a CPU, in the precision and by the library that are fastest there.

In fp32, PyTorch hands the product of a linear layer to its BLAS (MKL in most builds), which uses 40% of some
processors' rate, where oneDNN uses all of it. :func:`library` measures once which of them this process takes. In half
precision, PyTorch's products take 4 to 130 times as long as in fp32 on a processor without instructions for them (an
EPYC with AVX2): there the operands become fp32, and the result is rounded once, as it always is. Small products, other
precisions, other devices, autocast, and programs that are compiled or exported stay with PyTorch.

oneDNN's operators have private names in PyTorch. Where they are missing, everything stays with PyTorch as well.
"""

import functools
import logging
import os
import platform
import time
from contextlib import nullcontext
from types import MethodType
from typing import Any, Callable, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils import _python_dispatch

logger = logging.getLogger(__name__)

VARIABLE = "FAIRSEQ_ROPE_PRODUCTS"
"""Environment variable that names the library, so that nothing is measured."""

BLAS, ONEDNN = "blas", "onednn"

FASTER = 1.2
"""How many times as fast oneDNN has to be. Where they are close, the load must not decide."""

SHAPES = ((128, 512, 512), (256, 128, 512), (64, 512, 1024))  # rows, inputs, outputs
ROUNDS = 10

SMALLEST = 2**22
"""Multiplications of a product that is large enough for oneDNN, whose calls cost more; below, BLAS is as fast."""

PACKED = 2**17
"""Numbers in a weight that is large enough to be packed: with few rows, smaller ones are multiplied faster by BLAS."""

ROWS = 32
"""The rows that oneDNN expects of a packed weight; other numbers work as well."""

FEW = 16
"""Rows below which products in bf16 are faster in fp32, even with instructions for bf16: those of decoding."""

WORTH_CONVERTING = 12
"""Rows from which a weight in half precision without instructions may become fp32; for fewer, PyTorch is as fast."""

is_exporting: Callable[[], bool] = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)
"""Whether ``torch.export`` traces a model: the program serves other batches, too. Older versions of PyTorch cannot tell
it from ``torch.compile``."""

_operators: Any = torch.ops.mkldnn
_outside_of_modes: Callable[[], Any] = getattr(_python_dispatch, "_disable_current_modes", nullcontext)
_library: Optional[str] = None


def required() -> Optional[str]:
    """The library that the environment names, or None.

    Raises:
        ValueError: it names an unknown one.
    """
    name = os.environ.get(VARIABLE, "")
    if name not in ("", BLAS, ONEDNN):
        raise ValueError(f"{VARIABLE} is '{name}': set it to {BLAS} or {ONEDNN}, or leave it unset")
    return name or None


def library() -> str:
    """The library of this process, ``blas`` or ``onednn``: the required one, or else the first call measures.

    Of several processes of a training, the first that asks decides for all.
    """
    global _library
    if _library is None:
        if not is_available():
            _library = BLAS
        elif (name := required()) is not None:
            _library = name
        else:
            _library = _agreed(lambda: ONEDNN if speed_of_onednn() >= FASTER else BLAS)
    return _library


def chosen() -> Optional[str]:
    """The library of this process if a product has needed one."""
    return _library


def explanation() -> str:
    """The library of this process, and why it is that one."""
    if not is_available():
        return f"{BLAS} (this PyTorch has no oneDNN, or other operators)"
    if required() is not None:
        return f"{library()} ({VARIABLE})"
    return f"{library()} (oneDNN is {speed_of_onednn():.2f} times as fast as PyTorch's BLAS; it has to be {FASTER})"


def choose(name: str) -> None:
    """Takes the library of an earlier run, which this one continues; one that the environment names comes first."""
    global _library
    if required() is None and name in (BLAS, ONEDNN) and is_available():
        _library = name


@functools.cache
def speed_of_onednn() -> float:
    """How many times as fast as BLAS oneDNN is in a few products and their gradients, on one thread; measured once."""
    return _ratio(F.linear, onednn)


def speed_of_bf16() -> float:
    """How many times as fast bf16 is in the same products as fp32 in the faster library; 0 where it is emulated, which
    takes long to measure."""
    if not has_instructions(torch.bfloat16):
        return 0.0
    in_fp32 = onednn if is_available() and library() == ONEDNN else F.linear
    return _ratio(in_fp32, F.linear, torch.bfloat16)


def _ratio(first: Callable[..., Tensor], second: Callable[..., Tensor], dtype: torch.dtype = torch.float) -> float:
    """Seconds of the first function divided by those of the second, whose operands have ``dtype``: sums of the fastest
    of :data:`ROUNDS` calls each.

    Several threads wait for each other, and beside other work that would decide.
    """
    seconds, threads = [0.0, 0.0], torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        # what the caller has set for his own products, or counts of them, has no part in this
        with torch.no_grad(), torch.autocast("cpu", enabled=False), _outside_of_modes():
            for rows, inputs, outputs in SHAPES:
                sizes = ((rows, inputs), (outputs, inputs), (rows, outputs))
                x, weight, grad = (torch.ones(size, dtype=torch.float, device="cpu") for size in sizes)
                for pair in ((x, weight), (grad, weight.t()), (x.t(), grad.t())):
                    other = [operand.to(dtype) for operand in pair]
                    rounds = [(_seconds(first, *pair), _seconds(second, *other)) for _ in range(ROUNDS)]
                    seconds = [total + min(times) for total, times in zip(seconds, zip(*rounds))]
    finally:
        torch.set_num_threads(threads)
    return seconds[0] / seconds[1]


def _seconds(function: Callable[..., Tensor], *arguments: Tensor) -> float:
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def _agreed(decide: Callable[[], str]) -> str:
    """What the first of the distributed processes that asks decides."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return decide()
    # no process may wait for another: one with small batches may never ask, and waits for the gradients of all
    store = torch.distributed.distributed_c10d._get_default_store()
    return str(store.compare_set(VARIABLE, "", decide()).decode())


def is_available() -> bool:
    """Whether PyTorch has oneDNN, and the two operators by which it multiplies."""
    names = ("_reorder_linear_weight", "_linear_pointwise")
    return torch.backends.mkldnn.is_available() and all(hasattr(_operators, name) for name in names)


def onednn(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """oneDNN's ``x @ weight^T + bias``, without a gradient, where :func:`is_available`; ``weight`` may be packed."""
    out: Tensor = _operators._linear_pointwise(x, weight, bias, "none", [], "")
    return out


def _fits(x: Tensor, weight: Tensor) -> bool:
    """Whether ``x @ weight^T`` goes to oneDNN, or in half precision to fp32; else PyTorch has it."""
    if not x.is_cpu or x.dtype is not weight.dtype or torch.compiler.is_compiling():
        return False
    if x.dtype is torch.float:
        is_faster = x.numel() * weight.size(0) >= SMALLEST and library() == ONEDNN
    else:
        is_faster = x.numel() >= WORTH_CONVERTING * x.size(-1) and is_emulated(x)
    return is_faster and not torch.is_autocast_enabled("cpu")


def _fall_back(error: RuntimeError) -> None:
    global _library
    _library = BLAS
    logger.warning("oneDNN fails, so products are left to PyTorch from now on: %s", str(error).splitlines()[0])


def linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """``x @ weight^T + bias`` as ``torch.nn.functional.linear``, with gradients of any order."""
    if not _fits(x, weight):
        return F.linear(x, weight, bias)
    try:
        # the operator returns a view for other shapes, which PyTorch forbids to change in place
        out: Tensor = _Linear.apply(x.reshape(-1, x.size(-1)), weight, bias)
    except RuntimeError as error:
        out = F.linear(x, weight, bias)  # fails as well if the operands are wrong
        if x.dtype is torch.float:
            _fall_back(error)
        return out
    return out.view(*x.shape[:-1], weight.size(0))


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b``, in fp32 where that is faster, up to 20 times (:func:`multiplies_in_fp32`); never so under autocast."""
    return torch.matmul(a.float(), b.float()).type_as(a) if multiplies_in_fp32(a) else torch.matmul(a, b)


def multiplies_in_fp32(x: Tensor) -> bool:
    """Whether :func:`matmul` of ``x`` is made in fp32: of half precision on a CPU, but for many rows in bf16 where it
    has instructions."""
    if x.device.type != "cpu" or x.dtype not in (torch.bfloat16, torch.float16):
        return False
    if x.dtype == torch.float16 or torch.compiler.is_compiling():  # a program for all lengths
        return True
    return x.size(-2) < FEW or is_emulated(x)


def product(x: Tensor, weight: Tensor, out: Optional[Tensor] = None) -> Tensor:
    """``x @ weight^T``, ``(N, K)`` and ``(M, K)`` -> ``(N, M)``, without a gradient; BLAS may write it to ``out``."""
    return linear(x, weight) if _fits(x, weight) else torch.mm(x, weight.t(), out=out)


class _Linear(torch.autograd.Function):
    """The gradients are products as well: ``dx = dy @ weight`` and ``dweight = dy^T @ x``."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
        ctx.save_for_backward(x, weight)
        if x.dtype is torch.float:
            return onednn(x, weight, bias)
        return linear(x.float(), weight.float(), None if bias is None else bias.float()).type_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tuple[Optional[Tensor], ...]:
        (x, weight), needed = ctx.saved_tensors, ctx.needs_input_grad
        grad = grad.float()  # autograd rounds what is returned
        # the forward pass was outside of autocast, which may be active here
        with torch.autocast("cpu", enabled=False) if torch.is_autocast_enabled("cpu") else nullcontext():
            of_x = linear(grad, weight.float().t()) if needed[0] else None
            of_weight = weight_gradient(grad, x.float()) if needed[1] else None
            return of_x, of_weight, grad.sum(0) if needed[2] else None


def weight_gradient(grad: Tensor, x: Tensor) -> Tensor:
    """``grad^T @ x``: ``(N, M)`` and ``(N, K)`` -> ``(M, K)``, with a gradient.

    oneDNN copies its first operand if that is transposed: here always the smaller one.
    """
    if grad.size(1) > x.size(1) and _fits(x.t(), grad.t()):
        return linear(x.t(), grad.t()).t()
    return linear(grad.t(), x.t())


def add_weight_gradient(total: Tensor, grad: Tensor, x: Tensor) -> None:
    """Adds ``grad^T @ x`` to ``total`` ``(M, K)``, in place and without a gradient."""
    if _fits(x.t(), grad.t()):
        total.add_(weight_gradient(grad, x))
    else:
        total.addmm_(grad.t(), x)


def _forward(self: nn.Linear, x: Tensor) -> Tensor:
    return linear(x, self.weight, self.bias)


# in a pickle, a bound method is its name: a module that is read again has the forward of its class
_forward.__name__ = "forward"


def accelerate(model: nn.Module, args: Any) -> None:
    """Lets each ``nn.Linear`` of ``model`` multiply by :func:`linear`. Their type, which tools ask for, stays.

    Args:
        args: the model's options. With ``quant_noise_scalar``, fairseq replaces the layers, and nothing is changed.

    Raises:
        ValueError: the environment names an unknown library.
    """
    required()
    if getattr(args, "quant_noise_scalar", 0):
        return
    for module in model.modules():
        if type(module) is nn.Linear:
            module.forward = MethodType(_forward, module)  # type: ignore[method-assign]


class PackedLinear:
    """``x @ weight^T + bias`` without a gradient, with a copy of the weight in oneDNN's own layout.

    Without the copy, every product on a CPU first brings the weight into such a layout. With the few rows of a step of
    decoding, this takes as long as the product itself. Where the copy does not pay (small weights, oneDNN missing, or
    ``blas`` required), this is ``F.linear``, and nothing is copied. In half precision without instructions, the weight
    is copied in fp32, and so are the products.

    Args:
        weight: ``(out, in)``; later changes do not arrive.
        bias: ``(out,)`` or None.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor]) -> None:
        dtype = torch.float if is_emulated(weight) else weight.dtype
        self.weight, self.bias = weight.detach().to(dtype), None if bias is None else bias.detach().to(dtype)
        self.is_packed = can_pack(self.weight)
        if self.is_packed:
            self.weight = _operators._reorder_linear_weight(self.weight.contiguous(), ROWS)

    @classmethod
    def of(cls, *layers: nn.Linear) -> "PackedLinear":
        """The outputs of one or several layers of the same input, side by side."""
        if len(layers) == 1:
            return cls(layers[0].weight, layers[0].bias)
        biases = [layer.bias for layer in layers if layer.bias is not None]
        weight = torch.cat([layer.weight.detach() for layer in layers])
        return cls(weight, torch.cat([bias.detach() for bias in biases]) if biases else None)

    def __call__(self, x: Tensor) -> Tensor:
        """``(N, in)`` -> ``(N, out)``."""
        out = (onednn if self.is_packed else F.linear)(x.to(self.weight.dtype), self.weight, self.bias)
        return out.type_as(x)


def can_pack(weight: Tensor) -> bool:
    """Whether a copy of this weight in oneDNN's layout pays."""
    if weight.device.type != "cpu" or weight.numel() < PACKED or not is_available() or required() == BLAS:
        return False
    return computes_bf16() if weight.dtype == torch.bfloat16 else weight.dtype == torch.float


def computes_bf16() -> bool:
    """Whether oneDNN computes in bf16 on this processor."""
    return bool(getattr(_operators, "_is_mkldnn_bf16_supported", bool)())


def is_emulated(x: Tensor) -> bool:
    """Whether ``x`` is on a CPU, and in a half precision for whose products the processor has no instructions.

    Never in a program that is compiled, perhaps for another processor.
    """
    return x.is_cpu and not torch.compiler.is_compiling() and not has_instructions(x.dtype)


@functools.cache
def has_instructions(dtype: torch.dtype) -> bool:
    """Whether this processor multiplies in ``dtype``: in bf16 with AVX512_BF16, AMX or ARM's, in fp16 with AVX512_FP16.

    oneDNN also computes in bf16 with AVX-512 alone: slowly, so there it decides only where PyTorch cannot tell.
    """
    if dtype is torch.bfloat16:
        on_x86 = platform.machine().lower() in ("x86_64", "amd64")
        return bool(getattr(torch.cpu if on_x86 else None, "_is_avx512_bf16_supported", computes_bf16)())
    return dtype is not torch.float16 or bool(getattr(_operators, "_is_mkldnn_fp16_supported", bool)())
