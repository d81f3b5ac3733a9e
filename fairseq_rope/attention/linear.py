"""Attention without a softmax (RoFormer section 3.3, eq. 11; arXiv eq. 19): cost linear in the sentence's length."""

from typing import Any, Dict, Optional, Tuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..products import is_exporting
from .cache import IncrementalState
from .multihead import PositionalMultiheadAttention

SMALLEST_DENOMINATOR = 1e-6
CHUNK = 64
"""In causal attention, this many queries meet their keys directly; earlier keys enter as a sum."""


class LinearAttention(PositionalMultiheadAttention):
    """Attention without a softmax: ``out_i = sum_j (R_i phi(q_i)) . (R_j phi(k_j)) v_j / sum_j phi(q_i) . phi(k_j)``.

    The denominator is not rotated (RoFormer eq. 11), so it cannot vanish; its least value is 1e-6. The class computes
    in fp32. It never forms weights, only sums over the keys, ``(B, H, M, D)`` and ``(B, H, M)``. A step of incremental
    decoding needs nothing else about the past.

    Raises:
        ValueError: the caller asks for attention weights, or for dropout on them.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.dropout_module.p != 0:
            raise ValueError("linear attention forms no weights that could be dropped: leave --attention-dropout at 0")

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        key_padding_mask: Optional[Tensor],
        incremental_state: Optional[IncrementalState],
        causal: bool,
        need_weights: bool,
        context: Dict[str, Tensor],
    ) -> Tuple[Tensor, Optional[Tensor]]:
        if need_weights:
            raise ValueError(
                "linear attention forms no weights: ask for need_weights=False, or for another layer's, or train with "
                "an encoding that keeps the softmax, such as rope"
            )
        feature_map = cast(nn.Module, self.position)
        with torch.autocast(q.device.type, enabled=False):
            phi_q, phi_k = feature_map(q.float(), is_query=True), feature_map(k.float(), is_query=False)  # (B, H, T, M)
            if key_padding_mask is not None:  # neither in the numerator nor in the denominator
                phi_k = phi_k.masked_fill(key_padding_mask[:, None, :, None].bool(), 0)
            rotated_q, rotated_k = self.encoding.transform(phi_q, phi_k, **context)
            values = v.float()
            if incremental_state is None and not causal:
                numerator = rotated_q @ (rotated_k.transpose(-2, -1) @ values)  # (B, H, T, D)
                denominator = phi_q @ phi_k.sum(dim=2)[..., None]  # (B, H, T, 1)
            else:
                numerator = causal_product(rotated_q, rotated_k, values)
                denominator = (phi_q * phi_k.cumsum(dim=2)).sum(-1, keepdim=True)
            if incremental_state is not None:
                past: Any = self._get_input_buffer(incremental_state)
                products, keys = rotated_k.transpose(-2, -1) @ values, phi_k.sum(dim=2)  # (B, H, M, D), (B, H, M)
                if past:
                    numerator = numerator + rotated_q @ past["products"]
                    denominator = denominator + phi_q @ past["keys"][..., None]
                    products, keys = products + past["products"], keys + past["keys"]
                self._set_input_buffer(incremental_state, {"products": products, "keys": keys})
            return (numerator / denominator.clamp(min=SMALLEST_DENOMINATOR)).type_as(q), None


def causal_product(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """``sum_{j <= i} (q_i . k_j) v_j``: q, k ``(B, H, T, M)``, v ``(B, H, T, D)`` -> ``(B, H, T, D)``.

    It works in chunks: masked products within a chunk, plus the sum over the earlier chunks. This takes
    ``O(T (CHUNK + M) D)`` operations and ``O(T (CHUNK + M D / CHUNK))`` memory.
    """
    if is_exporting():  # an exported program would have a fixed number of chunks
        return (q @ k.transpose(-2, -1)).tril() @ v
    length, size = q.size(2), min(CHUNK, q.size(2))
    padding = -length % size
    if padding:  # where there is none, F.pad keeps strides that no compiled program expects
        q, k, v = (F.pad(x, (0, 0, 0, padding)) for x in (q, k, v))
    q, k, v = (x.unflatten(2, (-1, size)) for x in (q, k, v))  # (B, H, chunks, size, .)
    within = (q @ k.transpose(-2, -1)).tril() @ v
    if q.size(2) > 1:
        sums = (k.transpose(-2, -1) @ v)[:, :, :-1].cumsum(dim=2)  # (B, H, chunks - 1, M, D)
        within = within + q @ F.pad(sums, (0, 0, 0, 0, 1, 0))
    return within.flatten(2, 3)[:, :, :length]
