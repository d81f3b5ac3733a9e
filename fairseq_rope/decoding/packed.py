"""A step of decoding in few operations, with copies of the decoder's weights that are laid out for it."""

from typing import Callable, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn

from ..attention import EncoderAttention, IncrementalState, PositionalMultiheadAttention
from ..interception import is_intercepted
from ..layers import PositionalDecoderLayer
from ..products import PackedLinear
from ..stacks import PositionalTransformerDecoder
from .incremental import IncrementalDecoder

SAMPLE = 97
"""Numbers of each parameter that show whether it has changed since it was copied."""


class PackedLayer:
    """One decoder layer's arithmetic for one token a row, on copies of its weights.

    Args:
        layer: for which :func:`is_plain` is True.
    """

    def __init__(self, layer: PositionalDecoderLayer) -> None:
        self.layer = layer
        attention, to_encoder = layer.self_attn, layer.encoder_attn
        self.qkv = PackedLinear.of(attention.q_proj, attention.k_proj, attention.v_proj)
        self.out = PackedLinear.of(attention.out_proj)
        scaling, q_proj = to_encoder.scaling, to_encoder.q_proj
        self.encoder_q = PackedLinear(q_proj.weight * scaling, None if q_proj.bias is None else q_proj.bias * scaling)
        self.encoder_out = PackedLinear.of(to_encoder.out_proj)
        self.fc1, self.fc2 = PackedLinear.of(layer.fc1), PackedLinear.of(layer.fc2)

    def __call__(
        self, x: Tensor, source: "EncodedSource", state: IncrementalState, context: Dict[str, Tensor]
    ) -> Tensor:
        """The layer's output for ``x`` ``(rows, C)``; the keys and values of the step are added to ``state``."""
        layer = self.layer
        x = self._sublayer(layer.self_attn_layer_norm, x, lambda x: self._attend(x, state, context))
        x = self._sublayer(layer.encoder_attn_layer_norm, x, lambda x: self._attend_to(source, x))
        return self._sublayer(layer.final_layer_norm, x, lambda x: self.fc2(layer.activation_fn(self.fc1(x))))

    def _sublayer(self, norm: nn.Module, x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
        """The function with its residual connection, and the norm before or behind."""
        if self.layer.normalize_before:
            return x + function(norm(x))
        normed: Tensor = norm(function(x).add_(x))
        return normed

    def _attend(self, x: Tensor, state: IncrementalState, context: Dict[str, Tensor]) -> Tensor:
        attention, rows = self.layer.self_attn, len(x)
        q, k, v = self.qkv(x).view(rows, 3, attention.num_heads, 1, attention.head_dim).unbind(1)
        out, _ = attention.attend(q, k, v, None, state, causal=False, need_weights=False, context=context)
        return self.out(out.reshape(rows, -1))

    def _attend_to(self, source: "EncodedSource", x: Tensor) -> Tensor:
        attention: EncoderAttention = self.layer.encoder_attn
        k, v = source.keys_and_values[self.layer]
        q = self.encoder_q(x).view(k.size(0), -1, attention.num_heads, attention.head_dim).transpose(1, 2)
        return self.encoder_out(attention.attend(q, k, v, source.hidden).reshape(x.shape))


class EncodedSource:
    """The keys and values of the attention to the encoder, once for each of B sentences."""

    def __init__(self, layers: Sequence[PositionalDecoderLayer], encoder_out: Dict[str, List[Tensor]]) -> None:
        x = encoder_out["encoder_out"][0]  # (S, B, C)
        masks = encoder_out["encoder_padding_mask"]
        self.hidden: Optional[Tensor] = masks[0][:, None] if masks else None
        """``(B, 1, S)``, or ``(B, beams, S)``: True = padding, or a key that the beam does not see."""
        if self.hidden is not None and self.hidden.device.type == "cpu" and not self.hidden.any():
            self.hidden = None  # elsewhere, to look at it would cost a wait
        self.keys_and_values: Dict[PositionalDecoderLayer, Tuple[Tensor, Tensor]] = {}  # (B, H, S, D)
        for layer in layers:
            attention = layer.encoder_attn
            k, v = (
                projection(x).unflatten(-1, (attention.num_heads, -1)).permute(1, 2, 0, 3).contiguous()
                for projection in (attention.k_proj, attention.v_proj)
            )
            self.keys_and_values[layer] = k, v

    def keep(self, kept: Tensor) -> None:
        """Drops all sentences but those with the numbers ``kept``."""
        if self.hidden is not None:
            self.hidden = self.hidden[kept]
        self.keys_and_values = {layer: (k[kept], v[kept]) for layer, (k, v) in self.keys_and_values.items()}


class PackedWeights:
    """Copies of a decoder's weights, laid out for its steps. A copy or a pickle of this object is None.

    Args:
        decoder: for which :func:`is_plain` is True.
        weight: ``(V, C)``, of the output projection.
    """

    def __init__(self, decoder: PositionalTransformerDecoder, weight: Tensor) -> None:
        self.parameters = _parameters(decoder, weight)
        self.fingerprint, self.sample = _fingerprint(self.parameters), _sample(self.parameters)
        self.layers = [PackedLayer(layer) for layer in decoder.layers]
        self.vocabulary = PackedLinear(weight, None)

    def __reduce__(self) -> Tuple[type, Tuple[()]]:
        return type(None), ()

    def is_current(self, decoder: PositionalTransformerDecoder, weight: Tensor) -> bool:
        """Whether the parameters are those that were copied."""
        parameters = _parameters(decoder, weight)
        return (
            len(parameters) == len(self.parameters)
            and all(own is other for own, other in zip(self.parameters, parameters))
            and self.fingerprint == _fingerprint(parameters)
            and torch.equal(self.sample, _sample(parameters))
        )


def _parameters(decoder: PositionalTransformerDecoder, weight: Tensor) -> List[Tensor]:
    return [weight, *decoder.layers.parameters()]


def _fingerprint(parameters: Sequence[Tensor]) -> List[Tuple[int, int]]:
    """Changes with every operation in place, except through ``parameter.data``."""
    return [(p.data_ptr(), 0 if p.is_inference() else p._version) for p in parameters]


def _sample(parameters: Sequence[Tensor]) -> Tensor:
    """Some numbers of each parameter, which show a change of all its numbers through ``parameter.data``.

    A GPU waits for the comparison, once a batch.
    """
    parts = [p.detach().flatten()[:: max(1, p.numel() // SAMPLE)] for p in parameters if p.device.type != "meta"]
    return torch.cat(parts) if parts else torch.empty(0)


class PackedDecoder(IncrementalDecoder):
    """The decoder's steps in few operations, on copies of its weights; equal up to rounding."""

    def __init__(
        self,
        decoder: PositionalTransformerDecoder,
        encoder_out: Dict[str, List[Tensor]],
        weight: Tensor,
        weights: PackedWeights,
    ) -> None:
        super().__init__(decoder, encoder_out, weight)
        self.weights = weights
        self.source = EncodedSource(decoder.layers, encoder_out)

    def features(self, tokens: Tensor) -> Tensor:
        decoder = self.decoder
        key = decoder.positions_of(tokens, self.encoder_out)
        query = key.last()
        context = decoder.position.prepare(query, key)
        x = decoder.embed(tokens[:, -1:], query.positions)[:, 0]
        for layer in self.weights.layers:
            x = layer(x, self.source, self.state, context)
        if decoder.layer_norm is not None:
            x = decoder.layer_norm(x)
        return x if decoder.project_out_dim is None else decoder.project_out_dim(x)

    def logits(self, tokens: Tensor, buffer: Tensor) -> Tensor:
        vocabulary = self.weights.vocabulary
        if not vocabulary.is_packed and vocabulary.weight.dtype is self.weight.dtype:
            return super().logits(tokens, buffer)
        return vocabulary(self.features(tokens))

    def keep(self, kept: Tensor) -> None:
        self.keep_lengths(kept)
        self.source.keep(kept)


def is_plain(decoder: nn.Module) -> bool:
    """Whether a decoder computes what :class:`PackedLayer` does, and nobody listens to its modules.

    False with ``--scale-attn`` and the like, quantised or otherwise replaced linear layers, FSDP, with hooks and with
    replaced methods.
    """
    if type(decoder) is not PositionalTransformerDecoder:
        return False
    if is_intercepted(*decoder.modules()):
        return False
    return all(type(layer) is PositionalDecoderLayer and _is_plain_layer(layer) for layer in decoder.layers)


def _is_plain_layer(layer: PositionalDecoderLayer) -> bool:
    extras = (layer.attn_ln, layer.c_attn, layer.ffn_layernorm, layer.w_resid)
    attention, to_encoder = layer.self_attn, layer.encoder_attn
    if type(attention) is not PositionalMultiheadAttention or type(to_encoder) is not EncoderAttention:
        return False
    linear = [layer.fc1, layer.fc2]
    linear += [getattr(part, f"{name}_proj") for part in (attention, to_encoder) for name in ("q", "k", "v", "out")]
    return all(extra is None for extra in extras) and all(type(part) is nn.Linear for part in linear)


def packed_weights(decoder: PositionalTransformerDecoder, weight: Tensor) -> Optional[PackedWeights]:
    """The copies for this decoder, which keeps them until its parameters change or it is trained; None if it is not
    plain.

    Args:
        weight: ``(V, C)``, of the output projection.
    """
    if not is_plain(decoder):
        return None
    weights: Optional[PackedWeights] = decoder.decoding_copies
    if weights is None or not weights.is_current(decoder, weight):
        decoder.decoding_copies = None  # not two at a time
        weights = decoder.decoding_copies = PackedWeights(decoder, weight)
    return weights
