"""Multi-head self-attention with a position encoding: projection, cache, masks and the choice of the kernel."""

from contextlib import contextmanager
from typing import Any, Dict, Iterator, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention
from torch import Tensor

from .positions import PositionEncoding


class PositionalMultiheadAttention(MultiheadAttention):
    """fairseq's self-attention with the position term of an encoding.

    Parameters, their names and initialisation, and the incremental state are those of
    :class:`fairseq.modules.MultiheadAttention`, so that checkpoints convert. The kernel is PyTorch's
    ``scaled_dot_product_attention``; the attention weights exist only when they are asked for.

    Args:
        embed_dim: C.
        num_heads: H.
        position: the encoding; registered by the stack that shares it, not here.
        kwargs: as in fairseq's class.

    Raises:
        ValueError: an option of fairseq's class that changes the keys behind the position term's back.
    """

    def __init__(self, embed_dim: int, num_heads: int, *, position: PositionEncoding, **kwargs: Any) -> None:
        for option in ("add_bias_kv", "add_zero_attn", "xformers_att_config", "encoder_decoder_attention"):
            if kwargs.get(option):
                raise ValueError(f"{option} cannot be combined with a position encoding: leave it unset")
        super().__init__(embed_dim, num_heads, self_attention=True, **kwargs)
        self._position = [position]  # in a list, so that it is not registered once per layer
        self._context: Optional[Dict[str, Tensor]] = None

    @property
    def position(self) -> PositionEncoding:
        return self._position[0]

    @contextmanager
    def at(self, context: Dict[str, Tensor]) -> Iterator[None]:
        """Within this block, :meth:`forward` works with ``context``, the result of the encoding's ``prepare``.

        It spans one call of one layer: fairseq's layers have no argument for it.
        """
        self._context = context
        try:
            yield
        finally:
            self._context = None

    def forward(
        self,
        query: Tensor,
        key: Optional[Tensor] = None,
        value: Optional[Tensor] = None,
        key_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[Dict[str, Dict[str, Optional[Tensor]]]] = None,
        need_weights: bool = True,
        static_kv: bool = False,
        attn_mask: Optional[Tensor] = None,
        before_softmax: bool = False,
        need_head_weights: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Attends from ``query`` to itself and to the steps in ``incremental_state``.

        Args:
            query: ``(T, B, C)``.
            key, value: not used; in self-attention they are the query.
            key_padding_mask: ``(B, T)``, True = padding.
            incremental_state: holds the keys (already rotated) and values ``(B, H, S, D)`` of the steps before.
            need_weights: also return the weights, averaged over the heads.
            attn_mask: ``(T, S)``, added to the logits.
            need_head_weights: also return the weights of each head.

        Returns:
            The output ``(T, B, C)``, and the weights: None, ``(B, T, S)``, or per head ``(H, B, T, S)``.
        """
        if self._context is None:
            raise ValueError("the positions are missing: call the attention inside `with attention.at(context)`")
        if static_kv or before_softmax:
            raise ValueError("static_kv and before_softmax do not apply to self-attention with positions")
        q, k, v = (self._split_heads(project(query)) for project in (self.q_proj, self.k_proj, self.v_proj))
        q, k = self.position.rotate(q, k, **self._context)
        if incremental_state is not None:
            k, v, key_padding_mask = self._append_to_cache(incremental_state, k, v, key_padding_mask)

        mask = self._merge_masks(self.position.logit_bias(q, k, **self._context), attn_mask, key_padding_mask, q)
        scale = self.position.logit_scale(self.head_dim)
        weights: Optional[Tensor] = None
        if need_weights or need_head_weights:
            logits = torch.matmul(q * scale, k.transpose(-2, -1))
            weights = (logits if mask is None else logits + mask).float().softmax(dim=-1)
            out = torch.matmul(self.dropout_module(weights.type_as(q)), v)
            weights = weights.transpose(0, 1) if need_head_weights else weights.mean(dim=1)
        else:
            dropout = self.dropout_module
            dropout_p = dropout.p if self.training or dropout.apply_during_inference else 0.0
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout_p, scale=scale)
        out = out.permute(2, 0, 1, 3).flatten(2)  # (B, H, T, D) -> (T, B, C)
        return self.out_proj(out), weights

    def _split_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, self.head_dim)).permute(1, 2, 0, 3)  # (T, B, C) -> (B, H, T, D)

    def _append_to_cache(
        self,
        incremental_state: Dict[str, Dict[str, Optional[Tensor]]],
        k: Tensor,
        v: Tensor,
        key_padding_mask: Optional[Tensor],
    ) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
        """Puts the new steps behind the cached ones and stores and returns all of them: k and v ``(B, H, S, D)``."""
        cache = self._get_input_buffer(incremental_state)
        prev_key, prev_value = cache.get("prev_key"), cache.get("prev_value")
        if prev_key is not None and prev_value is not None:
            k, v = torch.cat([prev_key, k], dim=2), torch.cat([prev_value, v], dim=2)
        key_padding_mask = self._append_prev_key_padding_mask(
            key_padding_mask=key_padding_mask,
            prev_key_padding_mask=cache.get("prev_key_padding_mask"),
            batch_size=k.size(0),
            src_len=k.size(2),
            static_kv=False,
        )
        entries = {"prev_key": k, "prev_value": v, "prev_key_padding_mask": key_padding_mask}
        self._set_input_buffer(incremental_state, entries)
        return k, v, key_padding_mask

    @staticmethod
    def _merge_masks(
        bias: Optional[Tensor], attn_mask: Optional[Tensor], key_padding_mask: Optional[Tensor], q: Tensor
    ) -> Optional[Tensor]:
        """What is added to the logits, broadcastable to ``(B, H, T, S)`` and of q's dtype, or None.

        Padded keys get the smallest finite number, not -inf: the queries of left padding in a decoder see nothing
        but padding, and a row of -inf would turn them, and through the next layer everything, into NaN.
        """
        mask = bias
        if attn_mask is not None:
            attn_mask = attn_mask[None, None].type_as(q)
            mask = attn_mask if mask is None else mask + attn_mask
        if key_padding_mask is not None:
            padding = key_padding_mask[:, None, None, :].bool()
            zero_or_mask = q.new_zeros(()) if mask is None else mask
            mask = torch.where(padding, q.new_full((), torch.finfo(q.dtype).min), zero_or_mask)
        return None if mask is None else mask.type_as(q)
