"""Registered architectures: every family of position encoding, in every kind of model, at every size.

``<family>_<size>`` translates, ``<family>_mlm_<size>`` is a masked and ``<family>_lm_<size>`` a causal language model.
With ``fairseq_transformer`` in place of the family it is fairseq's own model of this kind, unchanged, at the same size:
the reference for speed and quality.
"""

import fnmatch
import importlib.util
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

import torch
from fairseq.models import ARCH_MODEL_REGISTRY, register_model_architecture
from fairseq.models.transformer.transformer_legacy import base_architecture
from fairseq.models.transformer_lm import base_lm_architecture

from . import language_model, masked_lm, translation  # noqa: F401  (register the models that the names below belong to)
from .fields import fill
from .options import SIDES
from .positions import POSITIONS

SIZES: Dict[str, Dict[str, Any]] = {
    "base": dict(embed_dim=512, ffn_embed_dim=2048, attention_heads=8, layers=6, dropout=0.1),
    "big": dict(embed_dim=1024, ffn_embed_dim=4096, attention_heads=16, layers=6, dropout=0.3),
    "iwslt_de_en": dict(embed_dim=512, ffn_embed_dim=1024, attention_heads=4, layers=6, dropout=0.1),
    "multi30k": dict(embed_dim=128, ffn_embed_dim=256, attention_heads=4, layers=4, dropout=0.3),
    "tiny": dict(embed_dim=128, ffn_embed_dim=256, attention_heads=4, layers=2, dropout=0.1),
}
"""Of translation: dimensions of both sides; ``base`` and ``big`` as in Vaswani et al. 2017, table 3."""

LANGUAGE_SIZES: Dict[str, Dict[str, Any]] = {
    "base": dict(embed_dim=768, ffn_embed_dim=3072, attention_heads=12, layers=12),
    "small": dict(embed_dim=256, ffn_embed_dim=1024, attention_heads=4, layers=4),
    "tiny": dict(embed_dim=128, ffn_embed_dim=256, attention_heads=4, layers=2),
}
"""Of language models; ``base`` as in BERT, and as RoFormer's and TUPE's experiments have it."""

ENWIK8: Dict[str, Any] = dict(LANGUAGE_SIZES["base"], attention_dropout=0.0)
"""RoFormer's experiment with linear attention (section 4.4), which has no weights to drop."""


class Kind(NamedTuple):
    """What the architectures of one kind of model have in common."""

    infix: str  # between family and size in their names
    model: str  # the name of the plugin's model, and of its base size
    stock: str  # fairseq's model of this kind
    sides: Tuple[str, ...]
    sizes: Dict[str, Dict[str, Any]]
    defaults: Dict[str, Any]  # of options that have no side
    fill: Callable[[Any], None]  # fairseq's defaults, as far as its model does not fill them in itself


KINDS = (
    Kind("", "roformer", "transformer", SIDES, SIZES, {}, base_architecture),
    Kind("mlm_", "roformer_mlm", "roberta", ("encoder",), LANGUAGE_SIZES, {}, lambda args: None),
    Kind(
        *("lm_", "roformer_lm", "transformer_lm", ("decoder",), {**LANGUAGE_SIZES, "enwik8": ENWIK8}),
        dict(dropout=0.1, attention_dropout=0.1, activation_fn="gelu"),  # as in GPT, and in fairseq's RoBERTa
        base_lm_architecture,
    ),
)
"""Translation, masked language models, causal ones."""

FAMILIES: Dict[str, str] = {
    # an inherited family is the base class's own
    vars(encoding).get("family") or f"transformer_{name}": name
    for name, encoding in POSITIONS.items()
}
"""First part of an architecture's name, to the position encoding of all sides."""


class Architecture(NamedTuple):
    """What the name of an architecture stands for."""

    position: str
    size: str
    kind: Kind


ARCHITECTURES: Dict[str, Architecture] = {}
"""The architectures of this package by name."""

REFERENCE = "fairseq_transformer"

UNSIZED = tuple(kind.model for kind in KINDS)
"""The models' own names stand for ``roformer_base`` and so on, for configurations that choose everything by fields."""


def match_architectures(names: Sequence[str]) -> List[str]:
    """The architectures with these names, each once; a pattern such as ``*_base`` stands for those of this package.

    A pattern stands for language models only if it names them: ``*_mlm_base``. Experiments name a size: :data:`UNSIZED`
    is for configurations alone.

    Raises:
        ValueError: a name or a pattern that matches no architecture.
    """
    chosen: List[str] = []
    for name in names:
        is_known = name in ARCH_MODEL_REGISTRY and name not in UNSIZED
        named = [arch for arch, (_, _, kind) in ARCHITECTURES.items() if kind.infix in name]
        matches = [name] if is_known else fnmatch.filter(named, name)
        if not matches:
            raise ValueError(f"unknown architecture '{name}': `fairseq-rope info` lists them")
        chosen += [arch for arch in matches if arch not in chosen]
    return chosen


def _let_half_precision_run(args: Any) -> None:
    """Undoes two assumptions of ``fairseq-train``, whose parsed arguments pass through here.

    With ``--bf16``, fairseq expects a TPU, and fails on a GPU or a CPU. With ``--fp16``, it keeps the fp32 parameters
    in one tensor for each CUDA device, which a CPU lacks.
    """
    if getattr(args, "bf16", False) and getattr(args, "tpu", False) and importlib.util.find_spec("torch_xla") is None:
        args.tpu = False
    if getattr(args, "fp16", False) and not torch.cuda.is_available():
        args.fp16_no_flatten_grads = True


def _set_defaults(args: Any, values: Dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(args, name, getattr(args, name, value))


def _set_size(args: Any, kind: Kind, size: str) -> None:
    _let_half_precision_run(args)
    dimensions = {name: value for name, value in kind.sizes[size].items() if "dropout" not in name}
    others = {name: value for name, value in kind.sizes[size].items() if name not in dimensions}
    _set_defaults(args, {f"{side}_{name}": value for side in kind.sides for name, value in dimensions.items()})
    _set_defaults(args, {**kind.defaults, **others})
    kind.fill(args)


def _set_architecture(args: Any, kind: Kind, size: str, position: str) -> None:
    for side in kind.sides:
        setattr(args, f"{side}_position", getattr(args, f"{side}_position", None) or position)
    # the encoding is the position term: fairseq's own is never added
    args.no_token_positional_embeddings = True
    used = [POSITIONS.get(getattr(args, f"{side}_position")) for side in kind.sides]
    if any(encoding is not None and encoding.attention == "linear" for encoding in used):
        _set_defaults(args, dict(attention_dropout=0.0))  # it forms no weights to drop
        if size == "enwik8":
            _set_defaults(args, dict(linear_feature_map="favor"))  # Performer's
    _set_size(args, kind, size)


def _register(model: str, name: str, architecture: Callable[..., None], *values: Any) -> None:
    register_model_architecture(model, name)(lambda args: fill(lambda given: architecture(given, *values), args))


for _kind in KINDS:
    for _size in _kind.sizes:
        for _family, _position in FAMILIES.items():
            _name = f"{_family}_{_kind.infix}{_size}"
            _register(_kind.model, _name, _set_architecture, _kind, _size, _position)
            ARCHITECTURES[_name] = Architecture(_position, _size, _kind)
        _register(_kind.stock, f"{REFERENCE}_{_kind.infix}{_size}", _set_size, _kind, _size)
    _register(_kind.model, _kind.model, _set_architecture, _kind, "base", "rope")
