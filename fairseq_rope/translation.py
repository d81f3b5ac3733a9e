"""The registered model: fairseq's transformer with position encodings by name."""

from argparse import ArgumentParser
from typing import Any, Dict

from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig, TransformerModel
from torch import nn

from .options import add_position_args, build_position, reject_unsupported
from .stacks import PositionalTransformerDecoder, PositionalTransformerEncoder
from .training.dropout import replace_dropout


@register_model("roformer")
class RoFormerModel(TransformerModel):
    """fairseq's transformer, with the position encoding of each side chosen by name.

    The class serves all architectures of the plugin; it has the name of the best known one.
    ``RoFormerModel.from_pretrained(folder, "checkpoint.pt", data, tokenizer="moses", bpe="subword_nmt")`` loads any.
    """

    @classmethod
    def hub_models(cls) -> Dict[str, Any]:
        return {}

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Adds fairseq's transformer flags, ``--encoder-position``, ``--decoder-position`` and each encoding's own."""
        super().add_args(parser)
        add_position_args(parser)

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "RoFormerModel":
        reject_unsupported(args)
        model: RoFormerModel = super().build_model(args, task)
        replace_dropout(model)
        return model

    @classmethod
    def build_encoder(cls, args: Any, src_dict: Any, embed_tokens: nn.Embedding) -> PositionalTransformerEncoder:
        cfg = TransformerConfig.from_namespace(args)
        return PositionalTransformerEncoder(cfg, src_dict, embed_tokens, build_position(cfg, "encoder", embed_tokens))

    @classmethod
    def build_decoder(cls, args: Any, tgt_dict: Any, embed_tokens: nn.Embedding) -> PositionalTransformerDecoder:
        cfg = TransformerConfig.from_namespace(args)
        return PositionalTransformerDecoder(
            cfg,
            tgt_dict,
            embed_tokens,
            build_position(cfg, "decoder", embed_tokens),
            no_encoder_attn=cfg.no_cross_attention,
        )
