"""The encoder and the decoder: fairseq's stacks of layers, which share one position encoding each."""

from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq.models.transformer import TransformerDecoderBase, TransformerEncoderBase
from torch import Tensor, nn

from .alignment import Alignment
from .attention import IncrementalState
from .attention.packing import pack, places, unpack
from .interception import is_intercepted
from .layers import PositionalDecoderLayer, PositionalEncoderLayer, wrap_layer
from .positions import PositionEncoding, TokenPositions
from .products import is_exporting


class PositionalTransformerEncoder(TransformerEncoderBase):
    """fairseq's encoder whose layers share one position encoding, ``self.position``."""

    packs = False
    """Whether the layers get a batch without its padding if that is much, and if nobody asks for all hidden states.

    The output is the same for every token. At padding it is zero in a packed batch, and anything else in another one.
    """

    def __init__(self, cfg: Any, dictionary: Any, embed_tokens: nn.Embedding, position: PositionEncoding) -> None:
        self._shared_position = (position,)  # super() builds the layers, before a module can be registered
        cfg.no_token_positional_embeddings = True  # fairseq's own term is never added
        super().__init__(cfg, dictionary, embed_tokens)
        self.position = position

    def build_encoder_layer(self, cfg: Any) -> nn.Module:
        return wrap_layer(PositionalEncoderLayer(cfg, self._shared_position[0]), cfg)

    def forward_embedding(
        self, src_tokens: Tensor, token_embedding: Optional[Tensor] = None, positions: Optional[Tensor] = None
    ) -> Tuple[Tensor, Tensor]:
        """Embeds ``src_tokens`` ``(B, T)``; returns the first layer's input and the scaled embedding, ``(B, T, C)``."""
        if positions is None:
            positions = self.position.positions_of(src_tokens).positions
        if token_embedding is None:
            token_embedding = self.embed_tokens(src_tokens)
        embed = self.embed_scale * token_embedding
        x = _add_term(embed, self.position.embed(positions))
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        x = self.dropout_module(x)
        if self.quant_noise is not None:
            x = self.quant_noise(x)
        return x, embed

    def max_positions(self) -> int:
        """The tokens of the longest sentence."""
        return self.position.longest(super().max_positions())

    def forward_scriptable(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor] = None,
        return_all_hiddens: bool = False,
        token_embeddings: Optional[Tensor] = None,
    ) -> Dict[str, List[Tensor]]:
        """As in fairseq's encoder, with the positions computed once and handed to every layer."""
        padding_mask = src_tokens.eq(self.padding_idx)  # (B, T)
        may_pack = self.packs and not return_all_hiddens and not is_exporting()
        pads = int(padding_mask.sum()) if may_pack else is_exporting() or bool(padding_mask.any())
        has_pads = pads > 0
        packed = places(padding_mask, pads) if may_pack else None
        if packed is not None and is_intercepted(*self.layers.modules(), *filter(None, [self.layer_norm])):
            packed = None  # who listens expects (T, B, C)
        positions = self.position.positions_of(src_tokens)
        context = self.position.prepare(positions, positions)

        x, embedding = self.forward_embedding(src_tokens, token_embeddings, positions.positions)
        if has_pads:
            x = x * (1 - padding_mask[:, :, None].type_as(x))
        x = x.transpose(0, 1)  # (B, T, C) -> (T, B, C)
        if packed is not None:
            x = pack(x, packed)
        states = [x] if return_all_hiddens else []
        for layer in self.layers:
            x = layer(x, encoder_padding_mask=padding_mask if has_pads else None, packed=packed, **context)
            if return_all_hiddens:
                states.append(x)
        if self.layer_norm is not None:
            x = self.layer_norm(x)
        if packed is not None:
            x = unpack(x, packed, padding_mask)
        lengths = (~padding_mask).sum(dim=1, dtype=torch.int32).reshape(-1, 1)
        return {
            "encoder_out": [x],
            "encoder_padding_mask": [padding_mask],
            "encoder_embedding": [embedding],
            "encoder_states": states,
            "fc_results": [],
            "src_tokens": [],
            "src_lengths": [lengths],
        }


class PositionalTransformerDecoder(TransformerDecoderBase):
    """fairseq's decoder whose layers share one position encoding, ``self.position``."""

    def __init__(
        self,
        cfg: Any,
        dictionary: Any,
        embed_tokens: nn.Embedding,
        position: PositionEncoding,
        no_encoder_attn: bool = False,
    ) -> None:
        self._shared_position = (position,)
        cfg.no_token_positional_embeddings = True
        super().__init__(cfg, dictionary, embed_tokens, no_encoder_attn=no_encoder_attn)
        self.position = position
        self.need_attn = False
        self.alignment: Optional[Alignment] = None
        """The weights that learned alignments, which ``need_attn`` then stands for."""
        self.decoding_copies: Any = None
        """Copies of the weights, laid out for the steps of decoding (:mod:`.decoding.packed`)."""

    def build_decoder_layer(self, cfg: Any, no_encoder_attn: bool = False) -> nn.Module:
        return wrap_layer(PositionalDecoderLayer(cfg, self._shared_position[0], no_encoder_attn), cfg)

    def build_output_projection(self, cfg: Any, dictionary: Any, embed_tokens: nn.Embedding) -> None:
        """As in fairseq; with ``--output-bias``, the logits have a bias."""
        super().build_output_projection(cfg, dictionary, embed_tokens)
        self.start_with_bos = bool(getattr(cfg, "start_with_bos", False))
        if getattr(cfg, "output_bias", False):
            if self.adaptive_softmax is not None:
                raise ValueError("--output-bias does not go with --adaptive-softmax-cutoff: leave one out")
            self.output_projection: nn.Linear
            self.output_projection.bias = nn.Parameter(torch.zeros(self.output_projection.out_features))

    def make_generation_fast_(self, need_attn: Any = False, **kwargs: Any) -> None:
        """Called by fairseq before generation; ``need_attn`` is the value of ``--print-alignment``."""
        self.need_attn = bool(need_attn)

    def train(self, mode: bool = True) -> "PositionalTransformerDecoder":
        """As in every module; a training drops the copies for decoding."""
        if mode:
            self.decoding_copies = None
        super().train(mode)
        return self

    def max_positions(self) -> int:
        """The tokens of the longest sentence."""
        return self.position.longest(super().max_positions())

    def positions_of(self, tokens: Tensor, encoder_out: Optional[Dict[str, List[Tensor]]]) -> TokenPositions:
        """The positions of ``tokens`` ``(B, T)``; the rows that translate one source are adjacent."""
        lengths = None
        if self.position.needs_source_lengths and encoder_out is not None:
            (lengths,) = encoder_out["src_lengths"]
            if not is_exporting():  # there, a source has one row, and the quotient would fix how many there are
                lengths = lengths.repeat_interleave(len(tokens) // len(lengths), dim=0)
        return self.position.positions_of(tokens, lengths)

    def embed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """The first layer's input, ``(B, T, C)``, for new ``tokens`` ``(B, T)`` at ``positions`` ``(B or 1, T)``."""
        if self.start_with_bos:  # an input is </s> only where it begins
            tokens = tokens.masked_fill(tokens.eq(self.dictionary.eos()), self.dictionary.bos())
        x = self.embed_scale * self.embed_tokens(tokens)
        if self.quant_noise is not None:
            x = self.quant_noise(x)
        if self.project_in_dim is not None:
            x = self.project_in_dim(x)
        x = _add_term(x, self.position.embed(positions))
        if self.layernorm_embedding is not None:
            x = self.layernorm_embedding(x)
        return self.dropout_module(x)

    def extract_features_scriptable(
        self,
        prev_output_tokens: Tensor,
        encoder_out: Optional[Dict[str, List[Tensor]]],
        incremental_state: Optional[IncrementalState] = None,
        full_context_alignment: bool = False,
        alignment_layer: Optional[int] = None,
        alignment_heads: Optional[int] = None,
        has_padding: Optional[bool] = None,
    ) -> Tuple[Tensor, Dict[str, List[Optional[Tensor]]]]:
        """As in fairseq's decoder, with the positions computed once and handed to every layer.

        ``has_padding`` tells whether a new token can be padding. If it is None, the decoder looks at the tokens and
        waits for the device, as fairseq's does.

        Returns attention weights when ``alignment_layer`` or ``alignment_heads`` is given, or when generation was
        prepared with ``--print-alignment``: those that learned alignments, else those of the last layer. Otherwise they
        are None and never computed.
        """
        if self.need_attn and alignment_layer is None and alignment_heads is None and self.alignment is not None:
            alignment_layer, alignment_heads = self.alignment.layer, self.alignment.heads
        if alignment_layer is None and (self.need_attn or alignment_heads is not None):
            alignment_layer = self.num_layers - 1
        encoder_x, encoder_padding_mask = _encoder_output(encoder_out)

        query = key = self.positions_of(prev_output_tokens, encoder_out)
        if incremental_state is not None:
            query, prev_output_tokens = key.last(), prev_output_tokens[:, -1:]
        context = self.position.prepare(query, key)

        x = self.embed(prev_output_tokens, query.positions).transpose(0, 1)  # (B, T, C) -> (T, B, C)

        causal = incremental_state is None and not full_context_alignment
        padding_mask = prev_output_tokens.eq(self.padding_idx)
        # under a causal mask, only padding sees padding on the right: the mask matters for the left
        if has_padding is None:
            has_padding = is_exporting() or bool((padding_mask[:, 0] if causal else padding_mask).any())
        attention: Optional[Tensor] = None
        inner_states: List[Optional[Tensor]] = [x]
        for i, layer in enumerate(self.layers):
            x, weights, _ = layer(
                x,
                encoder_x,
                encoder_padding_mask,
                incremental_state,
                self_attn_padding_mask=padding_mask if has_padding else None,
                need_attn=i == alignment_layer,
                need_head_weights=i == alignment_layer,
                causal=causal,
                **context,
            )
            inner_states.append(x)
            if i == alignment_layer and weights is not None:
                attention = weights[:alignment_heads].float().mean(dim=0).type_as(x)  # (H, B, T, S) -> (B, T, S)

        if self.layer_norm is not None:
            x = self.layer_norm(x)
        x = x.transpose(0, 1)  # (T, B, C) -> (B, T, C)
        if self.project_out_dim is not None:
            x = self.project_out_dim(x)
        return x, {"attn": [attention], "inner_states": inner_states}


def _add_term(x: Tensor, term: Optional[Tensor]) -> Tensor:
    return x if term is None else x + term.type_as(x)


def _encoder_output(encoder_out: Optional[Dict[str, List[Tensor]]]) -> Tuple[Optional[Tensor], Optional[Tensor]]:
    if encoder_out is None:
        return None, None
    x, mask = encoder_out["encoder_out"], encoder_out["encoder_padding_mask"]
    return (x[0] if x else None), (mask[0] if mask else None)
