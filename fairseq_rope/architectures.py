"""Registered architectures: every family of position encoding, in every kind of model, at every size.

``<family>_<size>`` translates, ``<family>_mlm_<size>`` is a masked and ``<family>_lm_<size>`` a causal language model.
With ``fairseq_transformer`` in place of the family it is fairseq's own model of this kind, unchanged, at the same size:
the reference for speed and quality.
"""

import difflib
import fnmatch
import importlib.util
from typing import Any, Callable, Dict, List, NamedTuple, Sequence

from fairseq.models import ARCH_MODEL_REGISTRY, register_model_architecture

from . import language_model, masked_lm, translation  # noqa: F401  (register the models that the names below belong to)
from .fields import fill
from .kinds import KINDS, Kind
from .options import SIDES, check_precision
from .positions import POSITIONS

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

UNSIZED = tuple(kind.model for kind in KINDS.values())
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
            near = "".join(f", {each}?" for each in difflib.get_close_matches(name, ARCHITECTURES, 1))
            raise ValueError(f"unknown architecture '{name}'{near}: `fairseq-rope info` lists them")
        chosen += [arch for arch in matches if arch not in chosen]
    return chosen


def _check_precision(args: Any) -> None:
    """Checks the parsed arguments of ``fairseq-train``, which pass through here; ``--bf16`` shall do without a TPU."""
    check_precision(args)
    if getattr(args, "bf16", False) and getattr(args, "tpu", False) and importlib.util.find_spec("torch_xla") is None:
        args.tpu = False


def _set_defaults(args: Any, values: Dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(args, name, getattr(args, name, value))


def _set_size(args: Any, kind: Kind, size: str) -> None:
    _check_precision(args)
    dimensions = {name: value for name, value in kind.sizes[size].items() if "dropout" not in name}
    others = {name: value for name, value in kind.sizes[size].items() if name not in dimensions}
    _set_defaults(args, {f"{kind.sides[0]}_{name}": value for name, value in dimensions.items()})
    if size == "base" and kind.sides == SIDES:  # as fairseq's: the decoder has the encoder's widths
        dimensions.update({name: getattr(args, f"encoder_{name}") for name in ("embed_dim", "ffn_embed_dim")})
    _set_defaults(args, {f"{kind.sides[-1]}_{name}": value for name, value in dimensions.items()})
    _set_defaults(args, {**kind.defaults, **others})
    if not kind.fills_late:
        kind.fill(args)


def _set_architecture(args: Any, kind: Kind, size: str, position: str) -> None:
    for side in kind.sides:
        setattr(args, f"{side}_position", getattr(args, f"{side}_position", None) or position)
    used = [POSITIONS.get(getattr(args, f"{side}_position")) for side in kind.sides]
    if any(encoding is not None and encoding.attention == "linear" for encoding in used):
        _set_defaults(args, dict(attention_dropout=0.0))  # it forms no weights to drop
        if size == "enwik8":
            _set_defaults(args, dict(linear_feature_map="favor"))  # Performer's
    _set_size(args, kind, size)


def _register(model: str, name: str, architecture: Callable[..., None], *values: Any) -> None:
    register_model_architecture(model, name)(lambda args: fill(lambda given: architecture(given, *values), args))


for _kind in KINDS.values():
    for _size in _kind.sizes:
        for _family, _position in FAMILIES.items():
            _name = f"{_family}_{_kind.infix}{_size}"
            _register(_kind.model, _name, _set_architecture, _kind, _size, _position)
            ARCHITECTURES[_name] = Architecture(_position, _size, _kind)
        _register(_kind.stock, f"{REFERENCE}_{_kind.infix}{_size}", _set_size, _kind, _size)
    _register(_kind.model, _kind.model, _set_architecture, _kind, "base", "rope")
