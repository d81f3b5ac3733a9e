"""fairseq's transformer layers with positional self-attention."""

from typing import Any, Dict, List, Optional, Tuple

import torch.nn.functional as F
from fairseq.distributed import fsdp_wrap
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import TransformerDecoderLayerBase, TransformerEncoderLayerBase
from torch import Tensor, nn

from .attention import SELF_ATTENTION, EncoderAttention, IncrementalState, PositionalMultiheadAttention
from .positions import PositionEncoding

FAST_PATH_COPIES = tuple(
    f"{module}_{kind}" for module in ("in_proj", "out_proj", "fc1", "fc2") for kind in ("weight", "bias")
)
"""Second copies of an encoder layer's parameters that fairseq 0.12.2 keeps for its inference fast path."""


class PositionalEncoderLayer(TransformerEncoderLayerBase):
    """An encoder layer whose self-attention knows positions.

    After a checkpoint is loaded and ``eval()`` is called, the layer of fairseq 0.12.2 would bypass its ``self_attn``:
    it has a fused kernel that reads copies of the parameters. This class switches that path off and drops the copies,
    also from state dicts, so parameter names are the same in all versions.
    """

    def __init__(self, cfg: Any, position: PositionEncoding) -> None:
        self._shared_position = (position,)  # the stack registers it
        super().__init__(cfg)
        self.can_use_fastpath = False
        _use_swish(self, cfg)
        for name in FAST_PATH_COPIES:
            self._parameters.pop(name, None)

    def build_self_attention(self, embed_dim: int, cfg: Any) -> PositionalMultiheadAttention:
        return _build_attention(self, embed_dim, cfg, cfg.encoder)

    def forward(
        self,
        x: Tensor,
        encoder_padding_mask: Optional[Tensor],
        packed: Optional[Tensor] = None,
        **context: Tensor,
    ) -> Tensor:
        with self.self_attn.at(context, packed=packed):
            return super().forward(x, encoder_padding_mask)

    def _load_from_state_dict(self, state_dict: Dict[str, Any], prefix: str, *args: Any) -> None:
        for name in FAST_PATH_COPIES:
            state_dict.pop(prefix + name, None)
        nn.Module._load_from_state_dict(self, state_dict, prefix, *args)


class PositionalDecoderLayer(TransformerDecoderLayerBase):
    """A decoder layer whose self-attention knows positions; its attention to the encoder does not."""

    def __init__(self, cfg: Any, position: PositionEncoding, no_encoder_attn: bool = False) -> None:
        self._shared_position = (position,)  # the stack registers it
        super().__init__(cfg, no_encoder_attn)
        self.need_attn = False  # attention weights only when they are asked for
        _use_swish(self, cfg)

    def build_self_attention(
        self, embed_dim: int, cfg: Any, add_bias_kv: bool = False, add_zero_attn: bool = False
    ) -> PositionalMultiheadAttention:
        return _build_attention(self, embed_dim, cfg, cfg.decoder, add_bias_kv=add_bias_kv, add_zero_attn=add_zero_attn)

    def build_encoder_attention(self, embed_dim: int, cfg: Any) -> EncoderAttention:
        return EncoderAttention(
            embed_dim,
            cfg.decoder.attention_heads,
            kdim=cfg.encoder.embed_dim,
            vdim=cfg.encoder.embed_dim,
            dropout=cfg.attention_dropout,
            encoder_decoder_attention=True,
            q_noise=self.quant_noise,
            qn_block_size=self.quant_noise_block_size,
        )

    def forward(
        self,
        x: Tensor,
        encoder_out: Optional[Tensor] = None,
        encoder_padding_mask: Optional[Tensor] = None,
        incremental_state: Optional[IncrementalState] = None,
        self_attn_padding_mask: Optional[Tensor] = None,
        need_attn: bool = False,
        need_head_weights: bool = False,
        causal: bool = False,
        **context: Tensor,
    ) -> Tuple[Tensor, Optional[Tensor], Optional[List[Optional[Tensor]]]]:
        with self.self_attn.at(context, causal):
            return super().forward(
                x,
                encoder_out,
                encoder_padding_mask,
                incremental_state,
                self_attn_padding_mask=self_attn_padding_mask,
                need_attn=need_attn,
                need_head_weights=need_head_weights,
            )


def _use_swish(layer: Any, cfg: Any) -> None:
    if getattr(cfg, "swish", False):
        layer.activation_fn = F.silu


def _build_attention(layer: Any, embed_dim: int, cfg: Any, side: Any, **kwargs: Any) -> PositionalMultiheadAttention:
    encoding: PositionEncoding = layer._shared_position[0]
    return SELF_ATTENTION[encoding.attention](
        embed_dim,
        side.attention_heads,
        encoding=encoding,
        dropout=cfg.attention_dropout,
        q_noise=layer.quant_noise,
        qn_block_size=layer.quant_noise_block_size,
        xformers_att_config=side.xformers_att_config,
        **kwargs,
    )


def wrap_layer(layer: nn.Module, cfg: Any) -> nn.Module:
    """Activation checkpointing and FSDP as fairseq's own stacks apply them to each layer."""
    if cfg.checkpoint_activations:
        layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
    return fsdp_wrap(layer, min_num_params=0 if cfg.checkpoint_activations else cfg.min_params_to_wrap)
