"""Attention to the encoder: fairseq's own, but in decoding several beams share one set of keys."""

from typing import Optional, Tuple

from fairseq.modules import MultiheadAttention
from torch import Tensor

from .cache import IncrementalState
from .kernels import product


class EncoderAttention(MultiheadAttention):
    """fairseq's attention to the encoder; in decoding, several beams can share one set of keys and values.

    The beams of a sentence are then adjacent in ``query``, whose batch is a multiple of that of ``key``.
    """

    def forward(
        self,
        query: Tensor,
        key: Optional[Tensor],
        value: Optional[Tensor],
        key_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[IncrementalState] = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Optional[Tensor] = None,
        before_softmax: bool = False,
        need_head_weights: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """As in fairseq's class, also for ``query`` ``(1, B x beams, C)`` with cached keys of B sentences."""
        cache = self._get_input_buffer(incremental_state)
        k, v = cache.get("prev_key"), cache.get("prev_value")  # (B, H, S, D)
        if k is None or v is None or k.size(0) == query.size(1) or need_weights or need_head_weights:
            return super().forward(
                query,
                key,
                value,
                key_padding_mask,
                incremental_state,
                need_weights,
                static_kv,
                attn_mask,
                before_softmax,
                need_head_weights,
            )
        q = (self.q_proj(query) * self.scaling).view(k.size(0), -1, self.num_heads, self.head_dim).transpose(1, 2)
        out = self.attend(q, k, v, cache.get("prev_key_padding_mask"))
        return self.out_proj(out.reshape(query.shape)), None

    def attend(self, q: Tensor, k: Tensor, v: Tensor, padding: Optional[Tensor]) -> Tensor:
        """The attention of the beams between the projections.

        Args:
            q: ``(B, H, beams, D)``, scaled.
            k, v: ``(B, H, S, D)``.
            padding: ``(B, S)``, True = padding, or None.

        Returns:
            ``(B, beams, H, D)``.
        """
        logits = product(q, k.transpose(-2, -1)).float()  # (B, H, beams, S)
        if padding is not None:
            logits = logits.masked_fill(padding[:, None, None].bool(), float("-inf"))
        weights = self.dropout_module(logits.softmax(dim=-1).type_as(v))  # in decoding only with --retain-dropout
        return product(weights, v).transpose(1, 2)
