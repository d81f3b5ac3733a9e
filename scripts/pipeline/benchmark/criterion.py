"""The projection to the vocabulary and cross entropy, forward and backward, against fairseq's."""

import argparse
from typing import Any, Callable, Dict, List

import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from torch import Tensor
from torch.nn import functional as F

from fairseq_rope.training.linear_loss import linear_label_smoothed_nll_loss

from ..command import Failure
from .machine import PRECISIONS
from .output import Result
from .timing import compared, interleaved

STOCK = "fairseq"
Loss = Callable[[Tensor, Tensor, Tensor, float], Tensor]


def stock(features: Tensor, weight: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """fairseq's: all logits, then their log-probabilities in fp32, then the loss, if smoothed of all types."""
    probabilities = F.log_softmax(F.linear(features, weight), dim=-1, dtype=torch.float32)
    if smoothing:
        return label_smoothed_nll_loss(probabilities, target, smoothing)[0]
    return F.nll_loss(probabilities, target, reduction="sum")


def ours(features: Tensor, weight: Tensor, target: Tensor, smoothing: float) -> Tensor:
    """The plugin's, in chunks."""
    return linear_label_smoothed_nll_loss(features, weight, target, smoothing)[0]


LOSSES: Dict[str, Loss] = {STOCK: stock, "ours": ours}


def gradients(loss: Loss, args: argparse.Namespace, precision: str) -> Callable[[], Any]:
    """Forward and backward of ``loss``, of random features ``(N, C)`` and a random weight ``(V, C)``."""
    torch.manual_seed(1)
    factory: Dict[str, Any] = {"device": args.device, "dtype": PRECISIONS[precision]}
    features = torch.randn(args.tokens, args.width, **factory).requires_grad_()
    weight = torch.randn(args.vocabulary, args.width, **factory).mul_(args.width**-0.5).requires_grad_()
    target = torch.randint(args.vocabulary, (args.tokens,), device=args.device)
    return lambda: torch.autograd.grad(loss(features, weight, target, args.smoothing), (features, weight))


def run(args: argparse.Namespace) -> Result:
    """Measures both losses with the gradients of features and weight."""
    if min(args.tokens, args.width, args.vocabulary) < 1:
        raise Failure("--tokens, --width and --vocabulary must be at least 1")
    if not 0 <= args.smoothing < 1:
        raise Failure("--smoothing must be at least 0 and below 1")
    rows: List[Dict[str, Any]] = []
    for precision in args.precisions:
        passes = {name: gradients(loss, args, precision) for name, loss in LOSSES.items()}
        for name, columns in compared(interleaved(passes, args.repeats, args.device), STOCK).items():
            rows.append({"precision": precision, "loss": name, **columns})
    return {
        "what": f"projection and loss, forward and backward; times as fast as {STOCK}'s",
        "tokens, width, vocabulary": [args.tokens, args.width, args.vocabulary],
        "label smoothing": args.smoothing,
        "repeats": args.repeats,
        "rows": rows,
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of ``benchmark criterion``."""
    parser.add_argument(
        "--tokens", type=int, default=2044, help="target tokens, of a masked model the masked ones (default: 2044)"
    )
    parser.add_argument("--width", type=int, default=512, help="channels of the decoder (default: 512)")
    parser.add_argument("--vocabulary", type=int, default=37000, help="size of the vocabulary (default: 37000)")
    parser.add_argument("--smoothing", type=float, default=0.1, help="of labels; 0 for language models (default: 0.1)")
    parser.add_argument("--precisions", nargs="+", choices=("fp32", "bf16"), default=["fp32", "bf16"])
