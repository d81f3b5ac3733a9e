"""Registered architectures: every family of position encoding at every size.

``<family>_<size>`` trains this plugin's model; ``fairseq_transformer_<size>`` trains fairseq's own, unchanged, at the
same size: the reference for speed and quality.
"""

import fnmatch
import importlib.util
from typing import Any, Callable, Dict, List, Sequence, Tuple

import torch
from fairseq.models import ARCH_MODEL_REGISTRY, register_model_architecture
from fairseq.models.transformer.transformer_legacy import base_architecture

from . import translation  # noqa: F401  (registers the model that the names below belong to)
from .fields import fill
from .positions import POSITIONS

SIZES: Dict[str, Dict[str, Any]] = {
    "base": dict(embed_dim=512, ffn_embed_dim=2048, attention_heads=8, layers=6, dropout=0.1),
    "big": dict(embed_dim=1024, ffn_embed_dim=4096, attention_heads=16, layers=6, dropout=0.3),
    "iwslt_de_en": dict(embed_dim=512, ffn_embed_dim=1024, attention_heads=4, layers=6, dropout=0.1),
    "multi30k": dict(embed_dim=128, ffn_embed_dim=256, attention_heads=4, layers=4, dropout=0.3),
    "tiny": dict(embed_dim=128, ffn_embed_dim=256, attention_heads=4, layers=2, dropout=0.1),
}
"""Dimensions of both sides; ``base`` and ``big`` as in Vaswani et al. 2017, table 3."""

FAMILIES: Dict[str, str] = {
    # an inherited family is the base class's own
    vars(encoding).get("family") or f"transformer_{name}": name
    for name, encoding in POSITIONS.items()
}
"""First part of an architecture's name, to the position encoding of both sides."""

ARCHITECTURES: Dict[str, Tuple[str, str]] = {}
"""Architecture name to (position encoding, size)."""

REFERENCE = "fairseq_transformer"

UNSIZED = "roformer"
"""``roformer_base`` under the model's own name, for configurations that choose encodings and sizes by fields."""


def match_architectures(names: Sequence[str]) -> List[str]:
    """The architectures with these names, each once; a pattern such as ``*_base`` stands for those of this package.

    Experiments name a size: :data:`UNSIZED` is for configurations alone.

    Raises:
        ValueError: a name or a pattern that matches no architecture.
    """
    chosen: List[str] = []
    for name in names:
        is_known = name in ARCH_MODEL_REGISTRY and name != UNSIZED
        matches = [name] if is_known else fnmatch.filter(ARCHITECTURES, name)
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


def _set_size(args: Any, size: str) -> None:
    _let_half_precision_run(args)
    dimensions = dict(SIZES[size])
    args.dropout = getattr(args, "dropout", dimensions.pop("dropout"))
    for name, value in dimensions.items():
        for side in ("encoder", "decoder"):
            setattr(args, f"{side}_{name}", getattr(args, f"{side}_{name}", value))
    base_architecture(args)


def _set_architecture(args: Any, position: str, size: str) -> None:
    for side in ("encoder", "decoder"):
        setattr(args, f"{side}_position", getattr(args, f"{side}_position", None) or position)
    # the encoding is the position term: fairseq's own is never added
    args.no_token_positional_embeddings = True
    _set_size(args, size)


def _register(model: str, name: str, architecture: Callable[..., None], *values: str) -> None:
    register_model_architecture(model, name)(lambda args: fill(lambda given: architecture(given, *values), args))


for _size in SIZES:
    for _family, _position in FAMILIES.items():
        _register("roformer", f"{_family}_{_size}", _set_architecture, _position, _size)
        ARCHITECTURES[f"{_family}_{_size}"] = (_position, _size)
    _register("transformer", f"{REFERENCE}_{_size}", _set_size, _size)
_register("roformer", UNSIZED, _set_architecture, "rope", "base")
