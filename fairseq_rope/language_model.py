"""Causal language models: fairseq's transformer decoder with a position encoding by name."""

from argparse import ArgumentParser
from typing import Any

from fairseq.dataclass.utils import gen_parser_from_dataclass
from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig
from fairseq.models.transformer_lm import TransformerLanguageModel, TransformerLanguageModelConfig

from . import hub
from .fields import keep, parse_fields
from .kinds import check_task
from .loading import PluginModel
from .options import add_position_args, add_training_args, build_position, reject_unsupported
from .stacks import PositionalTransformerDecoder

LIMITS = ("max_target_positions", "tokens_per_sample")
"""Options of the model or of its task, of which the first that is given is the longest text of the model, in tokens."""


@register_model("roformer_lm")
class RoFormerLanguageModel(PluginModel, TransformerLanguageModel):
    """fairseq's causal language model, with the position encoding chosen by name.

    The special symbol is ``<s>``, which only ``--add-bos-token`` puts before a text: running text has none.
    """

    begins_with_symbol: bool
    """Whether each text begins with ``<s>``."""

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str,
        checkpoint_file: str = "checkpoint.pt",
        data_name_or_path: str = ".",
        **options: Any,
    ) -> hub.Interface:
        """As in fairseq, but by default of a model folder of the scripts; the model's configuration is not logged, and
        :func:`hub.load` names what is wrong."""
        found = hub.load("causal", model_name_or_path, checkpoint_file, data_name_or_path, **options)
        return hub.Interface(found["args"], found["task"], found["models"], model_name_or_path)

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Adds the flags of fairseq's language model, ``--decoder-position`` and each encoding's own."""
        gen_parser_from_dataclass(parser, TransformerLanguageModelConfig(), delete_default=True)
        add_position_args(parser, ["decoder"])
        add_training_args(parser)

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "RoFormerLanguageModel":
        """Builds the model of parsed arguments, or of the section ``model`` of a configuration."""
        check_task(task, "causal")
        given, args = args, parse_fields(args, cls.add_args)
        reject_unsupported(args)
        if getattr(args, "decoder_layers_to_keep", None):
            args.decoder_layers = len(args.decoder_layers_to_keep.split(","))
        options = getattr(task, "args", None) or task.cfg  # not all of fairseq's tasks have both
        limits = [
            (name, limit) for args_ in (args, options) for name in LIMITS if (limit := getattr(args_, name, None))
        ]
        if not limits:
            raise ValueError("a causal model needs --task language_modeling, or else --max-target-positions")
        name, limit = limits[0]
        begins_with_symbol = bool(getattr(options, "add_bos_token", False))
        args.max_target_positions = limit + (begins_with_symbol and name == "tokens_per_sample")
        keep(given, max_target_positions=args.max_target_positions)
        cfg = TransformerConfig.from_namespace(args)
        source, target = task.source_dictionary, task.target_dictionary
        embed_tokens = cls.build_embedding(args, source, args.decoder_input_dim)
        position = build_position(cfg, "decoder", embed_tokens, source.bos())
        model = cls(PositionalTransformerDecoder(cfg, target, embed_tokens, position, no_encoder_attn=True))
        model.begins_with_symbol = begins_with_symbol
        model.complete(args, given, task)
        return model
