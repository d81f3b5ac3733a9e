"""Multi-head self-attention with a position encoding: projection, cache, masks and the choice of the kernel."""

import threading
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, NoReturn, Optional, Tuple

from fairseq.modules import MultiheadAttention
from torch import Tensor

from ..positions import PositionEncoding
from ..products import matmul
from .cache import IncrementalState, KeyValueCache, Tail
from .kernels import computes_in_fp32, precise, scaled_dot_product_attention
from .masks import merge_masks
from .packing import pack, unpack


class _Call(threading.local):
    """What :meth:`PositionalMultiheadAttention.at` says of the present call; several threads may use one model."""

    context: Optional[Dict[str, Tensor]] = None
    causal = False
    packed: Optional[Tensor] = None


_call = _Call()


class PositionalMultiheadAttention(MultiheadAttention):
    """fairseq's self-attention with the position term of an encoding.

    Parameters, their names and initialisation are those of :class:`fairseq.modules.MultiheadAttention`, so that
    checkpoints convert. The kernel is PyTorch's ``scaled_dot_product_attention``, except where two products are faster
    (:mod:`.kernels`).

    Args:
        embed_dim: C.
        num_heads: H.
        encoding: the stack that shares it registers it; its parameters for this layer are ``self.position``.
        kwargs: as in fairseq's class.

    Raises:
        ValueError: an option of fairseq's class cannot be combined with a position encoding.
    """

    def __init__(self, embed_dim: int, num_heads: int, *, encoding: PositionEncoding, **kwargs: Any) -> None:
        for option in ("add_bias_kv", "add_zero_attn", "xformers_att_config", "encoder_decoder_attention"):
            if kwargs.get(option):
                raise ValueError(f"{option} cannot be combined with a position encoding: leave it unset")
        super().__init__(embed_dim, num_heads, self_attention=True, **kwargs)
        self._shared_encoding = (encoding,)  # a tuple: nn.Module would register a module
        self.position = encoding.build_layer(self)

    def __prepare_scriptable__(self) -> NoReturn:
        """Called by ``torch.jit.script`` before it compiles anything; raises ValueError."""
        raise ValueError(
            "TorchScript cannot compile position encodings, whose hooks take keyword arguments of any name: use "
            "torch.export, or fairseq-rope export for CTranslate2"
        )

    @property
    def encoding(self) -> PositionEncoding:
        return self._shared_encoding[0]

    @contextmanager
    def at(self, context: Dict[str, Tensor], causal: bool = False, packed: Optional[Tensor] = None) -> Iterator[None]:
        """Within this block, :meth:`forward` works with ``context``, the result of the encoding's ``prepare``.

        With ``causal``, a query sees no later key. With ``packed``, the result of :func:`.packing.places`, query and
        output are packed, and the padding mask is needed. The block spans one call of one layer, because fairseq's
        layers have no arguments for these three.
        """
        before = _call.context, _call.causal, _call.packed  # of a model whose hook calls this one
        _call.context, _call.causal, _call.packed = context, causal, packed
        try:
            yield
        finally:
            _call.context, _call.causal, _call.packed = before

    def forward(
        self,
        query: Tensor,
        key: Optional[Tensor] = None,
        value: Optional[Tensor] = None,
        key_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[IncrementalState] = None,
        need_weights: bool = True,
        attn_mask: None = None,
        need_head_weights: bool = False,
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Attends from ``query`` to itself and to the steps in ``incremental_state``.

        Args:
            query: ``(T, B, C)``, or packed: ``(N, 1, C)``.
            key, value: not used; in self-attention they are the query.
            key_padding_mask: ``(B, T)``, True = padding.
            incremental_state: holds the keys (already rotated) and values of the steps before.
            need_weights: also return the weights, averaged over the heads.
            attn_mask: none; :meth:`at` says what a query sees.
            need_head_weights: also return the weights of each head.

        Returns:
            The output, of the query's shape, and the weights: None, ``(B, T, S)``, or per head ``(H, B, T, S)``.
        """
        if _call.context is None:
            raise ValueError("the positions are missing: call the attention inside `with attention.at(context)`")
        if attn_mask is not None:
            raise ValueError("a mask of pairs has no place here: use `attention.at(context, causal)`")
        projected = (project(query) for project in (self.q_proj, self.k_proj, self.v_proj))
        packed = _call.packed
        if packed is not None:
            assert key_padding_mask is not None
            projected = (unpack(x, packed, key_padding_mask) for x in projected)
        q, k, v = map(self._split_heads, projected)
        out, weights = self.attend(
            q,
            k,
            v,
            key_padding_mask,
            incremental_state,
            causal=_call.causal,
            need_weights=need_weights or need_head_weights,
            context=_call.context,
        )
        if weights is not None:
            weights = weights.transpose(0, 1) if need_head_weights else weights.mean(dim=1)
        out = out.permute(2, 0, 1, 3).flatten(2)  # (B, H, T, D) -> (T, B, C)
        return self.out_proj(out if packed is None else pack(out, packed)), weights

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
        """The attention between the projections; an encoding without softmax replaces this method.

        Args:
            q, k, v: ``(B, H, T, D)``, of the new steps.
            causal: a query sees no later key; only without ``incremental_state``, where T = S.
            context: the result of the encoding's ``prepare``.

        Returns:
            The output ``(B, H, T, D)``, and the weights ``(B, H, T, S)`` before dropout, in fp32 or fp64, if they are
            needed, else None.
        """
        q, k = self.encoding.transform(q, k, **context)
        # in a step of decoding (one query per sentence) the explicit way is faster, and bit-identical to fairseq
        explicit = need_weights or self.encoding.needs_weights or incremental_state is not None
        if explicit or not computes_in_fp32(v):
            q, k = q.type_as(v), k.type_as(v)
        if incremental_state is not None:
            k, v, key_padding_mask = self._append_to_cache(incremental_state, k, v, key_padding_mask)
        bias = self.encoding.logit_bias(q, k, self.position, **context)
        kernel_is_causal = causal and bias is None and key_padding_mask is None and not explicit
        mask = merge_masks(bias, causal and not kernel_is_causal, key_padding_mask, q, self.encoding.hides_keys)
        scale = self.encoding.logit_scale(self.head_dim)
        if not explicit:
            return scaled_dot_product_attention(q, k, v, mask, kernel_is_causal, scale, self.dropout_module), None
        logits = precise(matmul(q * scale, k.transpose(-2, -1)))
        if mask is not None:
            logits += mask
        weights = logits.softmax(dim=-1)
        dropped = self.dropout_module(weights)
        out = matmul(dropped.type_as(v), v)
        value_bias = self.encoding.value_bias(dropped, self.position, **context)
        return (out if value_bias is None else out + value_bias), weights if need_weights else None

    def _split_heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, self.head_dim)).permute(1, 2, 0, 3)  # (T, B, C) -> (B, H, T, D)

    def _append_to_cache(
        self, incremental_state: IncrementalState, k: Tensor, v: Tensor, key_padding_mask: Optional[Tensor]
    ) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
        """Puts the new steps behind the cached ones; returns all of them, k and v ``(B, H, S, D)``."""
        state: Dict[str, Any] = self._get_input_buffer(incremental_state)
        cache = state.get("keys_values") or KeyValueCache()
        k, v = cache.append(k, v)
        key_padding_mask = self._append_prev_key_padding_mask(
            key_padding_mask=key_padding_mask,
            prev_key_padding_mask=state.get("prev_key_padding_mask"),
            batch_size=k.size(0),
            src_len=k.size(2),
            static_kv=False,
        )
        entries: Dict[str, Any] = {"keys_values": cache, "prev_key_padding_mask": key_padding_mask}
        self._set_input_buffer(incremental_state, entries)
        return k, v, key_padding_mask

    def reorder_incremental_state(
        self, incremental_state: Optional[IncrementalState], new_order: Tensor, tails: Optional[List[Tail]] = None
    ) -> Optional[IncrementalState]:
        """Row ``i`` of the cached steps becomes the former row ``new_order[i]``; of ``tails`` see the cache."""
        state: Dict[str, Any] = self._get_input_buffer(incremental_state)
        cache = state.pop("keys_values", None)
        incremental_state = super().reorder_incremental_state(incremental_state, new_order)
        if cache is not None:
            cache.reorder(new_order, tails)
            state["keys_values"] = cache
        return incremental_state
