"""Masked language models: fairseq's RoBERTa with a position encoding by name."""

from argparse import ArgumentParser
from typing import Any, Optional

import torch
from fairseq.models import register_model
from fairseq.models.roberta import RobertaEncoder, RobertaModel
from fairseq.models.roberta.model import RobertaLMHead, base_architecture
from fairseq.models.transformer import TransformerConfig
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from torch import Tensor, nn

from . import hub
from .fields import keep, parse_fields
from .kinds import check_task
from .loading import PluginModel
from .masked_hub import MaskedHub, bpe_options
from .options import add_position_args, add_training_args, build_position, reject_unsupported
from .products import linear
from .stacks import PositionalTransformerEncoder

INITIAL_STD = 0.02  # of all weights, in BERT
EPS = 1e-5  # of fairseq's layer norms


class MaskedHead(RobertaLMHead):
    """RoBERTa's head."""

    def forward(self, features: Tensor, masked_tokens: Optional[Tensor] = None, **kwargs: Any) -> Tensor:
        """``(B, T, C)``, or the masked tokens of it, ``(N, C)`` -> logits ``(B, T, V)`` or ``(N, V)``."""
        if masked_tokens is not None:
            features = features[masked_tokens]
        x = self.layer_norm(self.activation_fn(self.dense(features)))
        return linear(x, self.weight) + self.bias


class RoFormerMaskedEncoder(RobertaEncoder):
    """RoBERTa's encoder and head around this plugin's stack of layers; the first token, ``<s>``, is special."""

    def __init__(self, args: Any, dictionary: Any) -> None:
        super().__init__(args, dictionary)
        has_type = getattr(args, "token_type_embedding", False)
        self.token_type = nn.Parameter(torch.randn(args.encoder_embed_dim) * INITIAL_STD) if has_type else None

    def extract_features(self, src_tokens: Tensor, return_all_hiddens: bool = False, **kwargs: Any) -> Any:
        if self.token_type is not None:
            given = kwargs.get("token_embeddings")
            embeddings = self.sentence_encoder.embed_tokens(src_tokens) if given is None else given
            kwargs["token_embeddings"] = embeddings + self.token_type
        return super().extract_features(src_tokens, return_all_hiddens, **kwargs)

    def max_positions(self) -> int:
        """Tokens of the longest text."""
        return self.sentence_encoder.position.longest(self.args.max_positions)

    def build_lm_head(self, *args: Any, **options: Any) -> MaskedHead:
        return MaskedHead(*args, **options)

    def build_encoder(self, args: Any, dictionary: Any, embed_tokens: nn.Embedding) -> PositionalTransformerEncoder:
        cfg = TransformerConfig.from_namespace(args)
        position = build_position(cfg, "encoder", embed_tokens, special_idx=None, limit_flag="--max-positions")
        encoder = PositionalTransformerEncoder(cfg, dictionary, embed_tokens, position)
        encoder.packs = True  # sentences come in random order, and those of a task differ much in length
        encoder.apply(init_bert_params)
        for name, parameter in encoder.named_parameters():  # fairseq's function knows layers, and no tables
            is_table = "position" in name.split(".") and parameter.dim() > 1 and parameter.requires_grad
            if is_table and not position.own_initial_values:
                nn.init.normal_(parameter, std=INITIAL_STD)
        return encoder


@register_model("roformer_mlm")
class RoFormerMaskedModel(PluginModel, RobertaModel):
    """fairseq's RoBERTa, with the position encoding chosen by name.

    ``RoFormerMaskedModel.from_pretrained(folder, "checkpoint.pt", data, tokenizer=..., bpe=...)`` loads any
    architecture of the plugin that is a masked language model, for ``fill_mask``, ``extract_features`` and ``predict``.
    ``data`` has ``dict.txt``; by default it is the folder. If ``vocab.txt`` is there, ``bpe`` is ``wordpiece`` by
    default. Else both are those of the training: ``moses`` and ``subword_nmt`` after ``prepare_text.sh``.
    """

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str,
        checkpoint_file: str = "checkpoint.pt",
        data_name_or_path: str = ".",
        bpe: Optional[str] = None,
        **kwargs: Any,
    ) -> MaskedHub:
        kwargs = {"load_checkpoint_heads": True, **kwargs, **bpe_options(model_name_or_path, data_name_or_path, bpe)}
        found = hub.load("masked", model_name_or_path, checkpoint_file, data_name_or_path, **kwargs)
        kept = getattr(found["args"].bpe, "_name", found["args"].bpe)
        if bpe not in (None, kept):
            raise ValueError(f"the training had --bpe {kept}, which fairseq keeps: leave bpe={bpe!r} out")
        return MaskedHub(found["args"], found["task"], found["models"][0]).eval()

    def load_state_dict(
        self, state_dict: Any, strict: bool = True, model_cfg: Optional[Any] = None, args: Optional[Any] = None
    ) -> Any:
        """As in fairseq.

        Raises:
            ValueError: the head is tied to the embeddings, and was not in training.
        """
        names = ("encoder.sentence_encoder.embed_tokens.weight", "encoder.lm_head.weight")
        embeddings, head = (state_dict.get(name) for name in names)
        tied = self.encoder.lm_head.weight is self.encoder.sentence_encoder.embed_tokens.weight
        if tied and embeddings is not None and head is not None and not torch.equal(embeddings, head):
            raise ValueError("the parameters are of a model with a head of its own: give --untie-weights-roberta")
        return super().load_state_dict(state_dict, strict, model_cfg, args)

    @classmethod
    def add_args(cls, parser: ArgumentParser) -> None:
        """Adds the flags of fairseq's RoBERTa, ``--encoder-position``, each encoding's own, those of activation
        checkpointing, and two that make it BERT."""
        RobertaModel.add_args(parser)
        parser.add_argument("--checkpoint-activations", action="store_true", help="compute activations twice")
        parser.add_argument("--offload-activations", action="store_true", help="and keep them on the CPU meanwhile")
        parser.add_argument(
            "--layer-norm-eps", type=float, metavar="X", help=f"in every layer norm; BERT has 1e-12 (default: {EPS})"
        )
        parser.add_argument(
            "--token-type-embedding", action="store_true", help="add one trained vector to every token, as BERT does"
        )
        add_position_args(parser, ["encoder"])
        add_training_args(parser)

    @classmethod
    def build_model(cls, args: Any, task: Any) -> "RoFormerMaskedModel":
        """Builds the model of parsed arguments, or of the section ``model`` of a configuration."""
        check_task(task, "masked")
        given, args = args, parse_fields(args, cls.add_args)
        reject_unsupported(args)
        if getattr(args, "mha_heads_to_keep", -1) != -1:
            raise ValueError("--mha-heads-to-keep is not supported here: an encoding serves all heads of a layer")
        args.encoder_learned_pos = False  # else fairseq's default
        if getattr(args, "offload_activations", False):
            args.checkpoint_activations = True
        if getattr(args, "max_positions", None) is None:
            own = getattr(getattr(task, "cfg", None), "tokens_per_sample", None)  # the official masked_lm says no more
            args.max_positions = getattr(args, "tokens_per_sample", None) or task.max_positions() or own
        if not isinstance(args.max_positions, int):
            raise ValueError("a masked model needs --task masked_lm, or one that fine-tunes it: sentence_prediction")
        keep(given, max_positions=args.max_positions)
        base_architecture(args)
        if args.spectral_norm_classification_head:
            raise ValueError(
                "--spectral-norm-classification-head is not supported here: fairseq cannot load such a head"
            )
        model = cls(args, RoFormerMaskedEncoder(args, task.source_dictionary))
        if args.untie_weights_roberta:
            nn.init.normal_(model.encoder.lm_head.weight, std=INITIAL_STD)
        model.complete(args, given, task)
        _set_eps(model, getattr(args, "layer_norm_eps", None))
        return model


def _set_eps(model: RoFormerMaskedModel, eps: Optional[float]) -> None:
    if eps is None:
        return
    if not 0 <= eps < 1:
        raise ValueError(f"--layer-norm-eps must be at least 0 and less than 1, not {eps}")
    for module in model.modules():
        if isinstance(module, (nn.LayerNorm, type(model.encoder.lm_head.layer_norm))):  # fairseq's own may be apex's
            module.eps = eps
