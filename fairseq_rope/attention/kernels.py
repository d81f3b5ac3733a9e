"""The two products of attention, in the form that is fastest on each device."""

from contextlib import nullcontext
from typing import Optional

import torch
import torch.nn.functional as F
from fairseq.modules.fairseq_dropout import FairseqDropout
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

SHORT = 24
"""Queries and keys up to which two products with their gradients are faster than PyTorch's kernel on a CPU."""

ON_GPU = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""PyTorch's kernels for GPUs without cuDNN's, which computes in half precision alone. It is left out for two reasons.

It makes a plan for each new shape, and the batches of a training have hundreds: with 18 trainings on an H200, RoPE's
first 1,500 updates on documents ran at a third of the speed of the later ones, and Shaw's, which do not call it, at
full speed.

With a mask, on an H100 or H200 and from torch 2.11 on, its gradient of a query is not finite if the number of keys is
an odd multiple of 64 and the query sees small logits alone, below about -88 (PyTorch's issue 196678). We saw it in
fp16, at about -29: that fits e^11, the largest number there.
"""


def product(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b``; on a CPU in fp32, except under autocast: many small products become up to 20 times as fast."""
    if a.device.type != "cpu" or a.dtype not in (torch.bfloat16, torch.float16):
        return torch.matmul(a, b)
    return torch.matmul(a.float(), b.float()).type_as(a)


def precise(logits: Tensor) -> Tensor:
    """In fp32 at least: in fp16 the mask of a padded key and a negative logit add up to -inf."""
    return logits.to(torch.promote_types(logits.dtype, torch.float))


def computes_in_fp32(v: Tensor) -> bool:
    """Whether :func:`scaled_dot_product_attention` converts half precision: on a CPU with gradients.

    There its backward pass takes twice as long in half precision, up to some 200 tokens, conversions included.
    """
    return v.device.type == "cpu" and v.dtype in (torch.bfloat16, torch.float16) and torch.is_grad_enabled()


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], is_causal: bool, scale: float, dropout: FairseqDropout
) -> Tensor:
    """Attention that never holds all weights at once if PyTorch has a kernel for it.

    It is computed in fp32 where :func:`computes_in_fp32`.

    Args:
        q: ``(B, H, T, D)``.
        k, v: ``(B, H, S, D)``.
        mask: added to the scaled logits, broadcastable to ``(B, H, T, S)`` and of q's dtype, or None.
        is_causal: a query sees no later key; only without ``mask``, where T = S.
        dropout: of the weights.

    Returns:
        ``(B, H, T, D)``, of v's dtype.
    """
    if not computes_in_fp32(v):
        return _attention(q, k, v, mask, is_causal, scale, dropout)
    with torch.autocast("cpu", enabled=False):
        mask = None if mask is None else mask.float()
        return _attention(q.float(), k.float(), v.float(), mask, is_causal, scale, dropout).type_as(v)


def _attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], is_causal: bool, scale: float, dropout: FairseqDropout
) -> Tensor:
    """PyTorch's ``scaled_dot_product_attention``; on a CPU with dropout, or when short input learns, two products.

    PyTorch has no kernel for dropout on a CPU. It does the same there, but draws a 32-bit number for each weight, which
    takes a fifth of a training step with 512 tokens. Without gradients its kernel stays, which is fairseq's to the bit.
    """
    p = dropout.p if dropout.training or dropout.apply_during_inference else 0.0
    if v.device.type != "cpu" or torch.compiler.is_compiling() or not (p > 0 or _learns_short(q, k)):
        with sdpa_kernel(ON_GPU) if v.device.type == "cuda" and v.dtype != torch.float else nullcontext():
            return F.scaled_dot_product_attention(q, k, v, mask, p, is_causal, scale=scale)
    logits = precise(product(q * scale, k.transpose(-2, -1)))
    if is_causal:
        mask = logits.new_full(logits.shape[-2:], float("-inf")).triu_(1)
    if mask is not None:
        logits += mask
    return product(dropout(logits.softmax(dim=-1).type_as(v)), v)


def _learns_short(q: Tensor, k: Tensor) -> bool:
    return torch.is_grad_enabled() and max(q.size(-2), k.size(-2)) <= SHORT
