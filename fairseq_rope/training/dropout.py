"""Dropout that draws 16 random bits per number on a CPU."""

from typing import Any, Tuple

import torch
from fairseq.modules.fairseq_dropout import FairseqDropout
from torch import Tensor, nn

LEVELS = 2**16


class CpuDropout(FairseqDropout):
    """fairseq's dropout; on a CPU, it draws four masks from each random 64-bit integer and stores them as bytes.

    PyTorch draws and stores a 32-bit number for each mask, which takes three times as long. This class rounds the
    probability to a multiple of 1/65,536, and scales by that rounded value. On other devices, and under
    ``torch.compile``, it calls PyTorch's own.
    """

    def forward(self, x: Tensor, inplace: bool = False) -> Tensor:
        level = round(self.p * LEVELS)
        active = self.training or self.apply_during_inference
        if x.device.type != "cpu" or not active or not 0 < level < LEVELS or torch.compiler.is_compiling():
            return super().forward(x, inplace)
        return _Dropout.apply(x, level)


class _Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, level: int) -> Tensor:
        bits = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        keep = bits.view(torch.int16)[: x.numel()].view(x.shape) >= level - LEVELS // 2
        keep = keep.view(torch.uint8)  # PyTorch multiplies by bytes faster than by truth values, or than it selects
        ctx.save_for_backward(keep)
        ctx.scale = LEVELS / (LEVELS - level)
        return torch.mul(x, keep).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tuple[Tensor, None]:
        return torch.mul(grad, ctx.saved_tensors[0]).mul_(ctx.scale), None


STACKS = {"TransformerEncoderBase": "TransformerEncoder", "TransformerDecoderBase": "TransformerDecoder"}
"""Classes that fairseq gives another name here."""


def replace_dropout(model: nn.Module) -> None:
    """Replaces each of fairseq's dropout modules in ``model`` by :class:`CpuDropout`.

    Their names, which ``--retain-dropout-modules`` asks for, become those that fairseq's transformer has.
    """
    for parent in model.modules():
        for name, child in parent.named_children():
            if type(child) is FairseqDropout:
                dropout = CpuDropout(child.p, module_name=_name_in_fairseq(parent, child.module_name))
                dropout.train(child.training)
                setattr(parent, name, dropout)


def _name_in_fairseq(parent: nn.Module, name: Any) -> Any:
    """The name of a dropout module of ``parent``: by default that of the class, here of fairseq's class behind it."""
    if name != type(parent).__name__:
        return name
    stock = next(kind.__name__ for kind in type(parent).__mro__ if kind.__module__.split(".")[0] == "fairseq")
    return STACKS.get(stock, stock)
