"""The terms added to the logits before the softmax, as one tensor: position bias, later keys and padding."""

from typing import Optional

import torch
from torch import Tensor


def merge_masks(
    bias: Optional[Tensor],
    causal: bool,
    key_padding_mask: Optional[Tensor],
    q: Tensor,
    hides_keys: bool = False,
) -> Optional[Tensor]:
    """Merges the terms that are added to the scaled logits.

    Padded keys get the smallest finite number, not -inf. In a decoder with left padding, the padded queries see only
    padding: a row of -inf would turn them into NaN, and the next layer everything else. So these queries see
    themselves: some kernels of GPUs overflow in a row of the smallest numbers. So do all padded queries if the bias
    hides keys.

    Args:
        bias: the position encoding's, broadcastable to ``(B, H, T, S)``, or None.
        causal: a query sees no later key; only where T = S.
        key_padding_mask: ``(B, S)``, True = padding, or None.
        q: ``(B, H, T, D)``.
        hides_keys: whether ``bias`` has -inf.

    Returns:
        Broadcastable to ``(B, H, T, S)``, of any floating dtype; None if there is nothing to add.
    """
    mask = bias
    if causal:
        future = q.new_full((1, 1, q.size(-2), q.size(-2)), float("-inf")).triu(1)
        mask = future if mask is None else mask + future
    if key_padding_mask is not None:
        padding = key_padding_mask[:, None, None, :].bool()
        if (causal or hides_keys) and q.size(-2) == padding.size(-1):
            alone = padding if hides_keys else (~padding).cumsum(-1).eq(0)  # no token is before it
            padding = padding & ~(alone & torch.eye(q.size(-2), dtype=torch.bool, device=q.device))
        # in fp32, the smallest number of fp64 would be -inf
        zero_or_mask = q.new_zeros(()) if mask is None else mask.to(torch.promote_types(mask.dtype, q.dtype))
        mask = torch.where(padding, q.new_full((), torch.finfo(q.dtype).min), zero_or_mask)
    return mask
