"""Masked language models: fairseq's RoBERTa with a position encoding by name."""

from argparse import ArgumentParser
from typing import Any, Dict

from fairseq.models import register_model
from fairseq.models.roberta import RobertaEncoder, RobertaModel
from fairseq.models.roberta.model import base_architecture
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from omegaconf import OmegaConf
from torch import nn

from .fields import parse_fields
from .options import add_position_args, build_position, reject_unsupported
from .stacks import PositionalTransformerEncoder
from .training.dropout import replace_dropout

INITIAL_STD = 0.02  # of all weights, in BERT


class RoFormerMaskedEncoder(RobertaEncoder):
    """RoBERTa's encoder and head around this plugin's stack of layers; the special symbol is ``<s>``."""

    def build_encoder(self, args: Any, dictionary: Any, embed_tokens: nn.Embedding) -> PositionalTransformerEncoder:
        cfg = TransformerConfig.from_namespace(args)
        position = build_position(cfg, "encoder", embed_tokens, dictionary.bos(), limit_flag="--max-positions")
        encoder = PositionalTransformerEncoder(cfg, dictionary, embed_tokens, position)
        encoder.apply(init_bert_params)
        for name, parameter in encoder.named_parameters():  # fairseq's function knows layers, and no tables
            if "position" in name.split(".") and parameter.dim() > 1 and parameter.requires_grad:
                nn.init.normal_(parameter, std=INITIAL_STD)
        return encoder


@register_model("roformer_mlm")
class RoFormerMaskedModel(RobertaModel):
    """fairseq's RoBERTa, with the position encoding chosen by name.

    ``RoFormerMaskedModel.from_pretrained(folder, "checkpoint.pt", data, bpe=...)`` loads any architecture of the plugin
    that is a masked language model, for ``fill_mask``, ``extract_features`` and ``predict``.
    """

    @classmethod
    def hub_models(cls) -> Dict[str, Any]:
        return {}

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Adds the flags of fairseq's RoBERTa, ``--encoder-position``, each encoding's own, and those of activation
        checkpointing, which RoBERTa lacks."""
        RobertaModel.add_args(parser)
        parser.add_argument("--checkpoint-activations", action="store_true", help="compute activations twice")
        parser.add_argument("--offload-activations", action="store_true", help="and keep them on the CPU meanwhile")
        add_position_args(parser, ["encoder"])

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "RoFormerMaskedModel":
        """Builds the model of parsed arguments, or of the section ``model`` of a configuration."""
        if OmegaConf.is_config(args):
            args = parse_fields(args, cls.add_args)
        reject_unsupported(args)
        if getattr(args, "mha_heads_to_keep", -1) != -1:
            raise ValueError("--mha-heads-to-keep is not supported here: an encoding serves all heads of a layer")
        args.encoder_learned_pos = False  # else fairseq's default
        if getattr(args, "offload_activations", False):
            args.checkpoint_activations = True
        if getattr(args, "max_positions", None) is None:
            args.max_positions = getattr(args, "tokens_per_sample", None) or task.max_positions()
        base_architecture(args)
        model = cls(args, RoFormerMaskedEncoder(args, task.source_dictionary))
        replace_dropout(model)
        return model
