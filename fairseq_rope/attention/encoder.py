"""Attention to the encoder: fairseq's own with faster products, where several beams can share one set of keys."""

from typing import Optional, Tuple

from fairseq.modules import MultiheadAttention
from torch import Tensor

from ..products import is_emulated, matmul
from .cache import IncrementalState
from .kernels import precise, scaled_dot_product_attention
from .masks import merge_masks

LONG = 64 * 64
"""Weights of a pair of texts from which :func:`.kernels.scaled_dot_product_attention` is faster in training.

On a CPU (one thread, an encoder and decoder 128 wide) a step of 256 tokens is 1.17 times as fast, of 64 1.03 to 1.08
times; of 20, it would take up to 1.1 times as long in bf16.
"""


class EncoderAttention(MultiheadAttention):
    """fairseq's attention to the encoder; in decoding, several beams can share one set of keys and values.

    The beams of a sentence are then adjacent in ``query``, whose batch is a multiple of that of ``key``. In training,
    pairs of long texts take the way of self-attention, and so does half precision without instructions for it, also in
    evaluation; otherwise evaluation equals fairseq's to the bit, with its library for products.
    """

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[IncrementalState] = None,
        need_weights: bool = True,
        static_kv: bool = False,
        need_head_weights: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """As in fairseq's class, also for ``query`` ``(1, B x beams, C)`` with cached keys of B sentences."""
        need_weights = need_weights or need_head_weights
        is_long = self.training and len(query) * len(key) >= LONG
        if (is_long or is_emulated(query)) and incremental_state is None and not need_weights:
            q, k, v = self.q_proj(query), self.k_proj(key), self.v_proj(value)
            return self._attend_in_full(q, k, v, key_padding_mask), None
        cache = self._get_input_buffer(incremental_state)
        k, v = cache.get("prev_key"), cache.get("prev_value")  # (B, H, S, D)
        if k is None or v is None or k.size(0) == query.size(1) or need_weights:
            return super().forward(
                query,
                key,
                value,
                key_padding_mask,
                incremental_state,
                need_weights,
                static_kv,
                need_head_weights=need_head_weights,
            )
        q = (self.q_proj(query) * self.scaling).view(k.size(0), -1, self.num_heads, self.head_dim).transpose(1, 2)
        padding = cache.get("prev_key_padding_mask")
        out = self.attend(q, k, v, None if padding is None else padding[:, None])
        return self.out_proj(out.reshape(query.shape)), None

    def _attend_in_full(self, q: Tensor, k: Tensor, v: Tensor, padding: Optional[Tensor]) -> Tensor:
        """The output ``(T, B, C)`` for projections ``(T, B, C)`` and ``(S, B, C)``; ``padding`` is ``(B, S)``."""
        q, k, v = (x.unflatten(-1, (self.num_heads, self.head_dim)).permute(1, 2, 0, 3) for x in (q, k, v))
        mask = merge_masks(None, False, padding, q)
        out = scaled_dot_product_attention(q, k, v, mask, False, self.scaling, self.dropout_module)
        return self.out_proj(out.permute(2, 0, 1, 3).flatten(2))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, hidden: Optional[Tensor]) -> Tensor:
        """The attention of the beams between the projections.

        Args:
            q: ``(B, H, beams, D)``, scaled.
            k, v: ``(B, H, S, D)``.
            hidden: ``(B, 1 or beams, S)``, True = padding, or another key that the beam does not see; or None.

        Returns:
            ``(B, beams, H, D)``.
        """
        logits = precise(matmul(q, k.transpose(-2, -1)))  # (B, H, beams, S)
        if hidden is not None:
            logits = logits.masked_fill(hidden[:, None].bool(), float("-inf"))
        weights = self.dropout_module(logits.softmax(dim=-1).type_as(v))  # in decoding only with --retain-dropout
        return matmul(weights, v).transpose(1, 2)
