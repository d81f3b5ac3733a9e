"""``config.json`` of a masked RoFormer or BERT, and the options of the model that computes the same here."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, List, NamedTuple

from ...options import position_options
from ..files import CheckpointError

CONFIG = "config.json"


class Kind(NamedTuple):
    """One of the two kinds of model."""

    model_class: str  # in the library transformers
    position: str  # our encoding
    arch: str
    max_positions: int  # the library's default
    tokenizer: str  # the library's default


KINDS = {
    "roformer": Kind("RoFormerForMaskedLM", "rope", "roformer_mlm_base", 1536, "RoFormerTokenizer"),
    "bert": Kind("BertForMaskedLM", "learned", "transformer_learned_mlm_base", 512, "BertTokenizer"),
}
"""``model_type`` in config.json, to what it stands for."""

ACTIVATIONS = {
    **{"gelu": "gelu", "relu": "relu", "tanh": "tanh", "gelu_new": "gelu_accurate"},
    **dict.fromkeys(("gelu_fast", "gelu_pytorch_tanh"), "gelu_accurate"),  # the same function, computed in other ways
}
"""``hidden_act`` in config.json, to fairseq's name."""

WRITTEN = {"gelu": "gelu", "relu": "relu", "tanh": "tanh", "gelu_accurate": "gelu_new", "gelu_fast": "gelu_new"}
"""fairseq's name of an activation, to ``hidden_act``."""

LARGEST = 2**31 - 1
LONGEST = 2**20  # positions of a model: a table of them must fit into the memory


class Configuration(NamedTuple):
    """What config.json says, checked; the library's defaults where it says nothing."""

    kind: Kind
    model_type: str
    words: int
    channels: int
    inner_channels: int
    layers: int
    heads: int
    max_positions: int
    token_types: int
    pad: int
    tied: bool
    eps: float
    activation: str  # fairseq's name
    dropout: float
    attention_dropout: float


def read_object(path: Path) -> Dict[str, Any]:
    """The object in a JSON file.

    Raises:
        CheckpointError: there is no such file, or it holds something else.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: missing: give a folder that transformers' save_pretrained wrote")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not JSON ({str(error)[:100]}): fetch it again") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: not an object of JSON: fetch it again")
    return value


def read_configuration(given: Dict[str, Any], path: Path) -> Configuration:
    """Checks the content of a ``config.json``, the file ``path``.

    Raises:
        CheckpointError: a value has a wrong type, or the model does something that this plugin's models do not.
    """
    model_type = given.get("model_type")
    if not isinstance(model_type, str) or model_type not in KINDS:
        raise CheckpointError(
            f"{path}: its model_type is {_shown(model_type)}: only {', '.join(KINDS)}, marian and m2m_100 convert"
        )
    values = Values(path, given)
    kind = KINDS[model_type]
    _reject_unsupported(values, model_type)
    channels, heads = values.whole("hidden_size", 768), values.whole("num_attention_heads", 12)
    even = " of even width" if kind.position == "rope" else ""
    if channels % heads or (even and channels // heads % 2):
        raise values.error("num_attention_heads", f"must divide hidden_size {channels} into heads{even}")
    if values.whole("embedding_size", channels) != channels:
        raise values.error(
            "embedding_size", f"must be hidden_size {channels}: a projection behind it has no place here"
        )
    activation = given.get("hidden_act", "gelu")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise values.error("hidden_act", f"must be one of {', '.join(ACTIVATIONS)}")
    return Configuration(
        kind=kind,
        model_type=model_type,
        words=values.whole("vocab_size", 0),
        channels=channels,
        inner_channels=values.whole("intermediate_size", 3072),
        layers=values.whole("num_hidden_layers", 12),
        heads=heads,
        max_positions=values.whole("max_position_embeddings", kind.max_positions, most=LONGEST),
        token_types=values.whole("type_vocab_size", 2),
        pad=values.whole("pad_token_id", 0, least=0),
        tied=values.switch("tie_word_embeddings", True),
        eps=values.fraction("layer_norm_eps", 1e-12),
        activation=ACTIVATIONS[activation],
        dropout=values.fraction("hidden_dropout_prob", 0.1),
        attention_dropout=values.fraction("attention_probs_dropout_prob", 0.1),
    )


def _reject_unsupported(values: "Values", model_type: str) -> None:
    kind: Dict[str, Any] = (
        {"rotary_value": False} if model_type == "roformer" else {"position_embedding_type": "absolute"}
    )
    required = {**kind, "is_decoder": False, "add_cross_attention": False}
    for name, expected in required.items():
        if values.given.get(name, expected) != expected:
            raise values.error(name, f"must be {json.dumps(expected)}: the masked models here do nothing else")


def _shown(value: Any) -> str:
    return ascii(value)[:60]


class Values:
    """Values of a file by name, checked."""

    def __init__(self, path: Path, given: Dict[str, Any]) -> None:
        self.path, self.given = path, given

    def error(self, name: str, rule: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: {name} is {_shown(self.given.get(name))}: it {rule}")

    def whole(self, name: str, default: int, least: int = 1, most: int = LARGEST) -> int:
        value = self.given.get(name)
        value = default if value is None else value
        if type(value) is not int or not least <= value <= most:
            raise self.error(name, f"must be a whole number from {least} to {most:,}")
        return value

    def switch(self, name: str, default: bool) -> bool:
        value = self.given.get(name, default)
        if not isinstance(value, bool):
            raise self.error(name, "must be true or false")
        return value

    def fraction(self, name: str, default: float) -> float:
        value = self.given.get(name, default)
        if type(value) not in (int, float) or not 0 <= value < 1:
            raise self.error(name, "must be a number of at least 0 and below 1")
        return float(value)


def flags(config: Configuration) -> List[str]:
    """The words of a command line of ``fairseq-train`` that describe the model."""
    options = {
        "arch": config.kind.arch,
        "encoder-layers": config.layers,
        "encoder-embed-dim": config.channels,
        "encoder-ffn-embed-dim": config.inner_channels,
        "encoder-attention-heads": config.heads,
        "max-positions": config.max_positions,
        "tokens-per-sample": config.max_positions,
        "activation-fn": config.activation,
        "layer-norm-eps": config.eps,
        "dropout": config.dropout,
        "attention-dropout": config.attention_dropout,
    }
    switches = ["--token-type-embedding"] + ([] if config.tied else ["--untie-weights-roberta"])
    return [f"--{name}={value}" for name, value in options.items()] + switches


def config_of(cfg: Namespace, sizes: Dict[str, int], pad: int, former: Dict[str, Any]) -> Dict[str, Any]:
    """``config.json`` of a masked language model.

    Args:
        cfg: the model's options, with every default.
        sizes: ``vocab_size``, ``max_position_embeddings``, ``type_vocab_size``.
        pad: the number of ``[PAD]``.
        former: the content of config.json that the model was converted from, or nothing.

    Raises:
        CheckpointError: neither RoFormer nor BERT of the library does what this model does.
    """
    names = {kind.position: model_type for model_type, kind in KINDS.items()}
    if cfg.encoder_position not in names:
        raise CheckpointError(
            f"--encoder-position {cfg.encoder_position} cannot be converted: RoFormer has rope, BERT learned positions"
        )
    model_type = names[cfg.encoder_position]
    options = position_options(cfg, cfg.encoder_position)
    if options != type(options)():
        raise CheckpointError(
            "RoFormer has RoPE without options: `fairseq-rope convert --to interleaved` changes --rope-layout half"
        )
    expected = dict(encoder_normalize_before=False, layernorm_embedding=True, no_scale_embedding=True)
    for name, value in expected.items():
        if getattr(cfg, name) != value:
            raise CheckpointError(f"--{name.replace('_', '-')} must be {value} as in BERT, not {getattr(cfg, name)}")
    if str(cfg.activation_fn) not in WRITTEN:
        raise CheckpointError(f"--activation-fn {cfg.activation_fn} must be one of {', '.join(WRITTEN)}")
    width = {"embedding_size": cfg.encoder_embed_dim, "rotary_value": False} if model_type == "roformer" else {}
    return {
        **(former if former.get("model_type") == model_type else {}),
        **width,
        "architectures": [KINDS[model_type].model_class],
        "model_type": model_type,
        "hidden_size": cfg.encoder_embed_dim,
        "intermediate_size": cfg.encoder_ffn_embed_dim,
        "num_hidden_layers": cfg.encoder_layers,
        "num_attention_heads": cfg.encoder_attention_heads,
        "hidden_act": WRITTEN[cfg.activation_fn],
        "layer_norm_eps": cfg.layer_norm_eps,
        "hidden_dropout_prob": cfg.dropout,
        "attention_probs_dropout_prob": cfg.attention_dropout,
        "tie_word_embeddings": not cfg.untie_weights_roberta,
        "pad_token_id": pad,
        **sizes,
    }
