"""One self-attention, forward and backward, per encoding and by length, against fairseq's own."""

import argparse
from typing import Any, Callable, Dict, List

import torch
from fairseq.modules import MultiheadAttention

from fairseq_rope.attention import SELF_ATTENTION
from fairseq_rope.positions import POSITIONS, Stack, Steps

from ..command import Failure
from .machine import PRECISIONS
from .output import Result
from .timing import compared, interleaved

STOCK = "fairseq"
"""The name of fairseq's own attention, which knows no positions."""

EMBED_DIM, HEADS = 512, 8


def stock_pass(length: int, causal: bool, dtype: torch.dtype, device: torch.device) -> Callable[[], None]:
    """Like :func:`attention_pass`, but for fairseq's attention, with the mask that its decoder passes."""
    torch.manual_seed(1)
    attention = MultiheadAttention(EMBED_DIM, HEADS, self_attention=True).to(device, dtype)
    x = torch.randn(length, 1, EMBED_DIM, device=device, dtype=dtype, requires_grad=True)
    mask = x.new_full((length, length), float("-inf")).triu(1).detach() if causal else None

    def run() -> None:
        attention(x, x, x, need_weights=False, attn_mask=mask)[0].sum().backward()

    return run


def attention_pass(
    encoding: str, length: int, causal: bool, dtype: torch.dtype, device: torch.device
) -> Callable[[], None]:
    """Forward and backward of one self-attention of base size over one sentence of ``length`` tokens."""
    torch.manual_seed(1)
    cls = POSITIONS[encoding]
    stack = Stack(EMBED_DIM, HEADS, max_positions=length, padding_idx=1, causal=causal)
    position = cls(stack, cls.Options()).to(device, dtype)
    attention = SELF_ATTENTION[cls.attention](EMBED_DIM, HEADS, encoding=position).to(device, dtype)
    x = torch.randn(length, 1, EMBED_DIM, device=device, dtype=dtype, requires_grad=True)
    positions = torch.arange(length, device=device)[None]
    steps = Steps(positions, torch.zeros_like(positions, dtype=torch.bool))

    def run() -> None:
        with attention.at(position.prepare(steps, steps), causal):
            attention(x, need_weights=False)[0].sum().backward()

    return run


def run(args: argparse.Namespace) -> Result:
    """Measures a self-attention by length, in both directions and causal."""
    if min(args.lengths) < 1:
        raise Failure("--lengths must be at least 1")
    rows: List[Dict[str, Any]] = []
    rest = (PRECISIONS[args.precision], args.device)
    for length in args.lengths:
        for causal in (False, True):
            passes = {STOCK: stock_pass(length, causal, *rest)}
            passes.update({name: attention_pass(name, length, causal, *rest) for name in args.encodings})
            for name, columns in compared(interleaved(passes, args.repeats, args.device), STOCK).items():
                row = {"tokens": length, "side": "decoder" if causal else "encoder", "attention": name}
                row["us/token"] = round(columns["seconds"] / length * 1e6, 1)
                rows.append({**row, "times as fast": columns["times as fast"], "quartiles": columns["quartiles"]})
    return {
        "what": f"one self-attention of base size, one sentence, forward and backward; times as fast as {STOCK}'s",
        "precision": args.precision,
        "repeats": args.repeats,
        "rows": rows,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``benchmark attention``."""
    names = ", ".join(sorted(POSITIONS))
    parser.add_argument(
        "--encodings",
        nargs="+",
        choices=sorted(POSITIONS),
        default=["rope", "linear"],
        metavar="ENCODING",
        help=f"encodings to measure: {names} (default: rope linear)",
    )
    lengths = [2**n for n in range(6, 14)]
    parser.add_argument("--lengths", nargs="+", type=int, default=lengths, help="tokens (default: 64 128 ... 8192)")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32", help="number format (default: fp32)")
