"""The two products of attention, in the form that is fastest on each device."""

from contextlib import nullcontext
from typing import Optional

import torch
import torch.nn.functional as F
from fairseq.modules.fairseq_dropout import FairseqDropout
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..products import matmul, multiplies_in_fp32

SHORT = 96
"""Queries and keys up to which two products with their gradients are faster than PyTorch's kernel on a CPU.

At 28 tokens they are 1.3 to 1.8 times as fast; in fp32 only as fast at the kernel's own sizes, 32 and 64.
"""

ON_GPU = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
"""PyTorch's kernels for GPUs without cuDNN's, which computes in half precision alone. It is left out for two reasons.

It makes a plan for each new shape, and the batches of a training have hundreds: with 18 trainings on an H200, RoPE's
first 1,500 updates on documents ran at a third of the speed of the later ones, and Shaw's, which do not call it, at
full speed.

With a mask, on an H100 or H200 and from torch 2.11 on, its gradient of a query is not finite if the number of keys is
an odd multiple of 64 and the query sees small logits alone, below about -88 (PyTorch's issue 196678). We saw it in
fp16, at about -29: that fits e^11, the largest number there.
"""


def precise(logits: Tensor) -> Tensor:
    """In fp32 at least: in fp16 the mask of a padded key and a negative logit add up to -inf."""
    return logits.to(torch.promote_types(logits.dtype, torch.float))


def computes_in_fp32(v: Tensor) -> bool:
    """Whether PyTorch's kernel gets fp32 in place of half precision: on a CPU with gradients.

    There its backward pass takes twice as long in half precision, up to some 200 tokens, conversions included.
    """
    return v.device.type == "cpu" and v.dtype in (torch.bfloat16, torch.float16) and torch.is_grad_enabled()


def scaled_dot_product_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor], is_causal: bool, scale: float, dropout: FairseqDropout
) -> Tensor:
    """Attention that never holds all weights at once if PyTorch has a kernel for it.

    On a CPU, PyTorch has no kernel for dropout, and none that learns a mask. There it makes two products, too, but in
    fp32 alone, and with a 32-bit random number for each weight, which takes a fifth of a training step with 512 tokens.
    Without gradients and dropout its kernel stays, which is fairseq's to the bit.

    Args:
        q: ``(B, H, T, D)``.
        k, v: ``(B, H, S, D)``.
        mask: added to the scaled logits, broadcastable to ``(B, H, T, S)``, or None.
        is_causal: a query sees no later key; only without ``mask``, where T = S.
        dropout: of the weights.

    Returns:
        ``(B, H, T, D)``, of v's dtype.
    """
    p = dropout.p if dropout.training or dropout.apply_during_inference else 0.0
    by_products = v.device.type == "cpu" and not torch.compiler.is_compiling() and (p > 0 or _learns(q, k, mask))
    if computes_in_fp32(v) and (multiplies_in_fp32(v) or not by_products):
        with torch.autocast("cpu", enabled=False):
            q, k, values = q.float(), k.float(), v.float()
            return scaled_dot_product_attention(q, k, values, mask, is_causal, scale, dropout).type_as(v)
    if not by_products:
        mask = None if mask is None else mask.type_as(q)
        with sdpa_kernel(ON_GPU) if v.device.type == "cuda" and v.dtype != torch.float else nullcontext():
            return F.scaled_dot_product_attention(q, k, v, mask, p, is_causal, scale=scale)
    logits = precise(matmul((q * scale).type_as(v), k.type_as(v).transpose(-2, -1)))
    if is_causal:
        mask = logits.new_full(logits.shape[-2:], float("-inf")).triu_(1)
    if mask is not None:
        logits += mask
    return matmul(dropout(logits.softmax(dim=-1).type_as(v)), v)


def _learns(q: Tensor, k: Tensor, mask: Optional[Tensor]) -> bool:
    """Whether there are gradients for which two products are faster: of short texts, or of the mask."""
    is_short = max(q.size(-2), k.size(-2)) <= SHORT
    return torch.is_grad_enabled() and (is_short or (mask is not None and mask.requires_grad))
