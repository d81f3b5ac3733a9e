"""The registered model: fairseq's transformer with position encodings by name."""

import threading
import warnings
from argparse import ArgumentParser
from contextlib import contextmanager, nullcontext
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from fairseq.models import register_model
from fairseq.models.transformer import TransformerConfig, TransformerModel
from torch import Tensor, nn

from . import hub
from .alignment import Alignment, add_alignment_args, requested_alignment
from .fields import keep, parse_fields
from .kinds import check_task
from .loading import PluginModel
from .options import add_position_args, add_training_args, build_position, reject_unsupported
from .stacks import PositionalTransformerDecoder, PositionalTransformerEncoder

LIMITS = ("max_source_positions", "max_target_positions")

_ALIGNING = threading.RLock()
"""Only one thread at a time changes what models return."""


@contextmanager
def _aligning(models: Sequence[Any]) -> Iterator[None]:
    """Lets the models return the attention weights that alignments are made of."""
    decoders = [model.decoder for model in models if isinstance(model, RoFormerModel)]
    with _ALIGNING:
        before = [decoder.need_attn for decoder in decoders]
        try:
            for decoder in decoders:
                decoder.need_attn = True
            yield
        finally:
            for decoder, need in zip(decoders, before):
                decoder.need_attn = need


class Hub(hub.Interface):
    """fairseq's interface to a trained model, without the warning that memory is not pinned on a CPU."""

    def generate(self, *args: Any, **options: Any) -> Any:
        aligning = _aligning(self.models) if options.get("print_alignment") else nullcontext()
        with warnings.catch_warnings(), aligning:  # fairseq asks for pinned memory everywhere
            warnings.filterwarnings("ignore", message="'pin_memory' argument is set as true")
            return super().generate(*args, **options)


@register_model("roformer")
class RoFormerModel(PluginModel, TransformerModel):
    """fairseq's transformer, with the position encoding of each side chosen by name.

    The class serves all architectures of the plugin; it has the name of the best known one.
    ``RoFormerModel.from_pretrained(folder, "checkpoint.pt", data, tokenizer="moses", bpe="subword_nmt")`` loads any.
    """

    alignment: Optional[Alignment] = None
    """What a training with alignments supervises."""

    @property
    def full_context_alignment(self) -> bool:
        """fairseq's search asks this before it makes alignments."""
        return self.alignment is not None and self.alignment.full_context

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str,
        checkpoint_file: str = "checkpoint.pt",
        data_name_or_path: str = ".",
        **options: Any,
    ) -> Hub:
        """As in fairseq, but by default of a model folder of the scripts; the model's configuration is not logged, and
        :func:`hub.load` names what is wrong."""
        found = hub.load("translation", model_name_or_path, checkpoint_file, data_name_or_path, **options)
        return Hub(found["args"], found["task"], found["models"], model_name_or_path)

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Adds the flags of fairseq's transformer, of alignments, of position encodings and of training with them, and
        three that make it Marian."""
        super().add_args(parser)
        add_alignment_args(parser)
        add_position_args(parser)
        add_training_args(parser)
        parser.add_argument("--swish", action="store_true", help="swish (SiLU) as activation, as in Marian")
        parser.add_argument("--output-bias", action="store_true", help="add a bias to the logits, as Marian does")
        parser.add_argument(
            "--start-with-bos", action="store_true", help="let the decoder's input begin with <s> in place of </s>"
        )

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "RoFormerModel":
        """Builds the model of parsed arguments, or of the section ``model`` of a configuration."""
        check_task(task, "translation")
        given, args = args, parse_fields(args, cls.add_args)
        for name in LIMITS:  # as flags, they are the task's and the model's
            if getattr(args, name, None) is None and (limit := getattr(getattr(task, "cfg", None), name, None)):
                setattr(args, name, limit)
                keep(given, **{name: limit})
        reject_unsupported(args)
        model: RoFormerModel = super().build_model(args, task)
        model.complete(args, given, task)
        if (alignment := requested_alignment(args, task)) is not None:
            model.alignment = model.decoder.alignment = alignment
            args.alignment_layer, args.alignment_heads = alignment.layer, alignment.heads  # for checkpoints
            keep(given, alignment_layer=alignment.layer, alignment_heads=alignment.heads)
        return model

    @classmethod
    def build_encoder(cls, args: Any, src_dict: Any, embed_tokens: nn.Embedding) -> PositionalTransformerEncoder:
        cfg = TransformerConfig.from_namespace(args)
        position = build_position(cfg, "encoder", embed_tokens, special_idx=src_dict.eos())
        return PositionalTransformerEncoder(cfg, src_dict, embed_tokens, position)

    @classmethod
    def build_decoder(cls, args: Any, tgt_dict: Any, embed_tokens: nn.Embedding) -> PositionalTransformerDecoder:
        cfg = TransformerConfig.from_namespace(args)
        position = build_position(cfg, "decoder", embed_tokens, special_idx=tgt_dict.eos())
        return PositionalTransformerDecoder(
            cfg, tgt_dict, embed_tokens, position, no_encoder_attn=cfg.no_cross_attention
        )

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Optional[Tensor],
        prev_output_tokens: Tensor,
        return_all_hiddens: bool = True,
        features_only: bool = False,
        alignment_layer: Optional[int] = None,
        alignment_heads: Optional[int] = None,
    ) -> Tuple[Tensor, Dict[str, List[Optional[Tensor]]]]:
        """As in fairseq's model; a training with alignments gets the weights that it supervises."""
        asked = self.alignment if alignment_layer is None and alignment_heads is None else None
        if asked is not None:
            alignment_layer, alignment_heads = asked.layer, asked.heads
        encoder_out = self.encoder(src_tokens, src_lengths=src_lengths, return_all_hiddens=return_all_hiddens)
        options = dict(encoder_out=encoder_out, alignment_layer=alignment_layer, alignment_heads=alignment_heads)
        x, extra = self.decoder(prev_output_tokens, features_only=features_only, **options)
        if asked is not None and asked.full_context:
            second = self.decoder(prev_output_tokens, features_only=True, full_context_alignment=True, **options)
            extra["attn"] = second[1]["attn"]
        return x, extra
