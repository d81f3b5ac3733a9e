"""RoPE alone, on queries and keys in the layout of the attention, against a copy of both."""

import argparse
import importlib
import importlib.util
from functools import partial
from typing import Any, Callable, Dict, List, Sequence, Tuple

import torch
from torch import Tensor

from fairseq_rope.attention.kernels import computes_in_fp32
from fairseq_rope.positions import Stack, Steps
from fairseq_rope.positions.rope import LAYOUTS, RotaryEncoding, RotaryOptions

from ..command import Failure
from .machine import PRECISIONS
from .output import Result
from .timing import compared, interleaved

REPEATS = 21
CALLS = 20
"""This many calls are timed together, because one takes less than a millisecond."""

COPY = "copy"
Rotate = Callable[[Tensor, Tensor], Tuple[Tensor, Tensor]]


def view(args: argparse.Namespace, precision: str) -> Tensor:
    """Random queries or keys ``(B, H, T, D)``: a view of ``(T, B, C)``, as they come out of the projection."""
    x = torch.randn(args.length, args.sentences, args.heads, args.head_dim, device=args.device)
    return x.to(PRECISIONS[precision]).permute(1, 2, 0, 3)


def ours(args: argparse.Namespace, layout: str) -> Rotate:
    """The plugin's rotation; the angles are computed before, as once for all layers in a model."""
    stack = Stack(args.heads * args.head_dim, args.heads, args.length, padding_idx=1, causal=False)
    encoding = RotaryEncoding(stack, RotaryOptions(layout=layout))
    positions = torch.arange(args.length, device=args.device)[None]
    steps = Steps(positions, torch.zeros_like(positions, dtype=torch.bool))
    context = encoding.prepare(steps, steps)

    def rotate(q: Tensor, k: Tensor) -> Any:
        """As the attention does: it rotates in fp32, and goes back to half precision unless it computes in fp32."""
        q_out, k_out = encoding.rotate(q, k, **context)
        return (q_out, k_out) if computes_in_fp32(q) else (q_out.type_as(q), k_out.type_as(k))

    return rotate


def cos_and_sin(args: argparse.Namespace, precision: str) -> Tuple[Tensor, Tensor]:
    """Cosines and sines of the angles in layout ``half``, each ``(T, D)``, in the precision of q and k."""
    exponents = torch.arange(0, args.head_dim, 2, device=args.device) / -args.head_dim
    angles = torch.arange(args.length, device=args.device)[:, None] * 10000.0**exponents
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos().to(PRECISIONS[precision]), angles.sin().to(PRECISIONS[precision])


def eager(args: argparse.Namespace, precision: str) -> Rotate:
    """The formula in most models: ``x cos + (-x2, x1) sin``, in layout ``half``."""
    cos, sin = cos_and_sin(args, precision)

    def rotated(x: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat([-second, first], dim=-1) * sin

    return lambda q, k: (rotated(q), rotated(k))


def candidates(args: argparse.Namespace, precision: str) -> Dict[str, Rotate]:
    """The rotations of q and k, by name; includes Liger's kernel if it is installed and there is a GPU."""
    candidates = {f"ours, {layout}": ours(args, layout) for layout in LAYOUTS}
    candidates["eager, half"] = eager(args, precision)
    if args.device.type == "cuda" and importlib.util.find_spec("liger_kernel"):
        kernel: Any = importlib.import_module("liger_kernel.transformers.rope").liger_rotary_pos_emb
        cos, sin = (table[None] for table in cos_and_sin(args, precision))
        candidates["Liger, half"] = lambda q, k: kernel(q, k, cos, sin)
    return candidates


def passes(args: argparse.Namespace, precision: str) -> Dict[str, Dict[str, Callable[[], Any]]]:
    """The calls to time: each candidate's forward pass, alone and with its backward pass."""
    q, k, grad_q, grad_k = (view(args, precision) for _ in range(4))
    forward: Dict[str, Callable[[], Any]] = {COPY: lambda: (q.clone(), k.clone())}
    both: Dict[str, Callable[[], Any]] = {COPY: lambda: [x.clone() for x in (q, k, grad_q, grad_k)]}
    leaves = [x.detach().requires_grad_() for x in (q, k)]
    for name, rotate in candidates(args, precision).items():
        forward[name] = partial(rotate, q, k)
        rotated = zip((grad_q, grad_k), rotate(q, k))
        both[name] = partial(forward_backward, rotate, leaves, [grad.type_as(x) for grad, x in rotated])
    return {"forward": forward, "forward and backward": both}


def forward_backward(rotate: Rotate, leaves: Sequence[Tensor], gradients: Sequence[Tensor]) -> Sequence[Tensor]:
    """The gradients of q and k ``leaves``, given the gradients of the rotated ones."""
    return torch.autograd.grad(rotate(*leaves), leaves, gradients)


def repeated(call: Callable[[], Any]) -> Callable[[], None]:
    """Repeats ``call`` :data:`CALLS` times."""

    def calls() -> None:
        for _ in range(CALLS):
            call()

    return calls


def run(args: argparse.Namespace) -> Result:
    """Measures the rotation of q and k against a copy of them in the same memory layout."""
    if min(args.sentences, args.length, args.heads, args.head_dim) < 1 or args.head_dim % 2:
        raise Failure("--sentences, --length and --heads must be at least 1, --head-dim even")
    rows: List[Dict[str, Any]] = []
    for precision in args.precisions:
        for name, calls in passes(args, precision).items():
            timed = {candidate: repeated(call) for candidate, call in calls.items()}
            seconds = interleaved(timed, args.repeats, args.device)
            for candidate, columns in compared(seconds, COPY).items():
                row = {"precision": precision, "pass": name, "candidate": candidate}
                row["us"] = round(columns["seconds"] / CALLS * 1e6, 1)
                rows.append({**row, "times as fast": columns["times as fast"], "quartiles": columns["quartiles"]})
    return {
        "what": "RoPE on queries and keys, views (B, H, T, D) of (T, B, C); times as fast as a copy of them "
        "(and, with the backward pass, of their gradients)",
        "B, H, T, D": [args.sentences, args.heads, args.length, args.head_dim],
        "repeats": args.repeats,
        "rows": rows,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``benchmark rope``."""
    parser.add_argument("--sentences", type=int, default=73, help="number of sentences (default: 73)")
    parser.add_argument("--length", type=int, default=28, help="tokens of each sentence (default: 28)")
    parser.add_argument("--heads", type=int, default=8, help="number of heads (default: 8)")
    parser.add_argument("--head-dim", type=int, default=64, help="channels of a head (default: 64)")
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "bf16"), default=["fp32", "bf16"])
