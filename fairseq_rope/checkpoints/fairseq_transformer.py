"""Converts a checkpoint of fairseq's own transformers into one of this plugin with the same positions, and back.

For each side, sinusoidal positions become ``sinusoidal``, learned ones ``learned``, and no positions ``none``. The
models are fairseq's ``transformer``, ``roberta`` and ``transformer_lm``.
"""

import math
from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY, MODEL_REGISTRY
from fairseq.models.transformer import DEFAULT_MAX_SOURCE_POSITIONS, DEFAULT_MAX_TARGET_POSITIONS
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor

from ..architectures import ARCHITECTURES, FAMILIES
from ..kinds import KINDS, Kind
from ..layers import FAST_PATH_COPIES
from ..masked_lm import EPS
from ..options import SIDES, reject_unsupported
from .configuration import check_gap, model_configuration, with_configuration, with_task_options
from .files import CheckpointError
from .model_folder import task_options

MEMORY = "plain_transformer"
"""The entry of a converted checkpoint that serves the way back: the former architecture, and unused tensors."""

OURS = "fast_translation"
"""The task of this plugin that becomes fairseq's own."""

OURS_ALONE: Dict[str, Tuple[Any, ...]] = {
    "sinusoidal_formula": (None, "fairseq"),
    **dict.fromkeys(("output_bias", "start_with_bos", "swish", "token_type_embedding"), (None, False)),
    "layer_norm_eps": (None, EPS),
}
"""Options of this plugin's models, with the values that fairseq's have."""

COMMON = ("sinusoidal", "learned", "none")
"""The encodings that fairseq's transformers also have."""


def convert_checkpoint(state: Dict[str, Any], to: str) -> Dict[str, Any]:
    """The same model as this plugin's (``to`` is ``plugin``) or as fairseq's own (``fairseq``); ``state`` stays.

    Conversion there and back gives the same tensors. The optimizer's state is kept if both sides have the same
    parameters in the same order: not with learned positions, and not if the encoder layers of fairseq's version have
    further parameters.

    Raises:
        ValueError: the model is of another kind, is converted already, or has an option that the other side lacks.
    """
    if getattr(model_configuration(state), "quant_noise_scalar", None) not in (None, 0.0):
        raise CheckpointError(
            "--quant-noise-scalar does not convert: fairseq's attention rounds other weights than ours"
        )
    return {"plugin": _to_plugin, "fairseq": _to_fairseq}[to](state)


def _to_plugin(state: Dict[str, Any]) -> Dict[str, Any]:
    cfg = model_configuration(state)
    arch = cfg.arch
    if kind_of_arch(arch) is not None:
        raise CheckpointError(f"{arch} is an architecture of this plugin already: there is nothing to convert")
    kind = next((kind for kind in KINDS.values() if _is_of(arch, kind.stock)), None)
    if kind is None:
        raise CheckpointError(f"{arch} is not an architecture of fairseq's plain transformers: only those convert")
    kind.fill(cfg)  # what older versions of fairseq did not store
    positions = {}
    for side in kind.sides:
        learned = getattr(cfg, f"{side}_learned_pos")
        positions[side] = "none" if cfg.no_token_positional_embeddings else "learned" if learned else "sinusoidal"
        setattr(cfg, f"{side}_position", positions[side])
        setattr(cfg, f"{side}_learned_pos", False)
    cfg.no_token_positional_embeddings = False
    reject_unsupported(cfg)

    prefixes = tuple(f"{side}.{kind.stack}embed_positions." for side in SIDES)
    model = {name: value for name, value in state["model"].items() if not name.startswith(prefixes)}
    unused = {name: value for name, value in state["model"].items() if name.startswith(prefixes)}
    for side in _learned(positions):
        name = f"{side}.{kind.stack}embed_positions.weight"
        table = _tensor(unused, name)
        rows = _max_positions(cfg, side, kind) or len(table) - Dictionary().pad() - 1
        before = len(table) - rows  # fairseq counts from padding_idx + 1
        if before < 1:
            raise CheckpointError(f"{name} has {len(table)} rows, too few for {rows} positions and the padding")
        unused[name] = table[:before].clone()
        model[f"{side}.{kind.stack}position.weight"] = table[before:].clone()

    converted = _converted(state, cfg, architecture(cfg, kind), model, positions)
    return {**converted, MEMORY: {"arch": arch, "unused": unused}}


def _to_fairseq(state: Dict[str, Any]) -> Dict[str, Any]:
    cfg = model_configuration(state)
    if any(_is_of(cfg.arch, kind.stock) for kind in KINDS.values()):
        raise CheckpointError(f"{cfg.arch} is an architecture of fairseq's already: there is nothing to convert")
    kind = kind_of_arch(cfg.arch)
    if kind is None:
        raise CheckpointError(f"{cfg.arch} is not a model of this plugin: only those convert to fairseq's")
    positions = {side: getattr(cfg, f"{side}_position", "unknown") for side in kind.sides}
    for side, position in positions.items():
        if position not in COMMON:
            raise CheckpointError(f"the {side}'s positions are {position}, and fairseq has only {', '.join(COMMON)}")
    check_gap(cfg, "fairseq's models")
    for option, values in OURS_ALONE.items():
        if getattr(cfg, option, None) not in values:
            raise CheckpointError(
                f"--{option.replace('_', '-')} is not in fairseq's models: this one has no form there"
            )
    bare = [side for side in positions if positions[side] == "none"]
    if len(bare) == 1 < len(positions):
        raise CheckpointError(f"the {bare[0]} alone has no positions, and fairseq has them on both sides or on none")

    memory = state.get(MEMORY) or {"arch": kind.stock, "unused": _buffers(positions, kind.stack)}
    model = {**state["model"], **memory["unused"]}
    for side in positions:
        delattr(cfg, f"{side}_position")
        setattr(cfg, f"{side}_learned_pos", positions[side] == "learned")
    for side in _learned(positions):
        name = f"{side}.{kind.stack}embed_positions.weight"
        table = _tensor(model, f"{side}.{kind.stack}position.weight")
        before = memory["unused"].get(name, table.new_zeros(Dictionary().pad() + 1, table.size(1)))
        model[name] = torch.cat([before, table])
        del model[f"{side}.{kind.stack}position.weight"]
    cfg.no_token_positional_embeddings = bool(bare)
    task = {name: "translation" for name in ("_name", "task") if task_options(state).get(name) == OURS}
    converted = with_task_options(_converted(state, cfg, memory["arch"], model, positions), task)
    converted.pop(MEMORY, None)
    return converted


def kind_of_arch(arch: str) -> Optional[Kind]:
    """The kind of an architecture of this plugin; None for another one."""
    return next((kind for kind in KINDS.values() if _is_of(arch, kind.model)), None)


def _is_of(arch: str, model: str) -> bool:
    return ARCH_MODEL_REGISTRY.get(arch) is MODEL_REGISTRY[model]


def _converted(
    state: Dict[str, Any], cfg: Any, arch: str, model: Dict[str, Tensor], positions: Dict[str, str]
) -> Dict[str, Any]:
    """``state`` with another configuration, architecture and tensors."""
    cfg.arch = arch
    converted = {**with_configuration(state, cfg), "model": model}
    if _learned(positions) and "ema" in (state.get("extra_state") or {}):
        raise CheckpointError("the moving average of learned positions (--store-ema) does not convert: delete it first")
    other_layers = any(name.split(".")[-1] in FAST_PATH_COPIES for name in model)
    if _learned(positions) or other_layers:
        converted.pop("last_optimizer_state", None)
    return converted


def _learned(positions: Dict[str, str]) -> List[str]:
    return [side for side, position in positions.items() if position == "learned"]


def _tensor(model: Dict[str, Tensor], name: str) -> Tensor:
    if name not in model:
        raise CheckpointError(f"there is no parameter {name}, which the configuration asks for")
    return model[name]


def _buffers(positions: Dict[str, str], stack: str) -> Dict[str, Tensor]:
    """The tensors that the installed fairseq stores for its sinusoids: one number in official versions."""
    kept = SinusoidalPositionalEmbedding(embedding_dim=4, padding_idx=0, init_size=1).state_dict()
    sides = [side for side in positions if positions[side] == "sinusoidal"]
    return {f"{side}.{stack}embed_positions.{name}": value for side in sides for name, value in kept.items()}


def _max_positions(cfg: Any, side: str, kind: Kind) -> Optional[int]:
    """Positions of one side; None if its table alone tells."""
    name = "max_source_positions" if side == "encoder" else "max_target_positions"
    if len(kind.sides) == 1:
        return getattr(cfg, "max_positions" if side == "encoder" else name, None)
    return getattr(cfg, name, None) or (
        DEFAULT_MAX_SOURCE_POSITIONS if side == "encoder" else DEFAULT_MAX_TARGET_POSITIONS
    )


def architecture(cfg: Any, kind: Kind) -> str:
    """The architecture's name: the family of the first side's encoding, and the size.

    The size is that of ``cfg.arch`` or the one whose dimensions have the nearest ratios; the configuration has the real
    dimensions anyway.
    """

    def distance(size: str) -> float:
        dimensions = {name: value for name, value in kind.sizes[size].items() if "dropout" not in name}
        pairs = [(getattr(cfg, f"{side}_{name}"), value) for side in kind.sides for name, value in dimensions.items()]
        return sum(abs(math.log(max(given, 1) / value)) for given, value in pairs)

    known = ARCHITECTURES.get(cfg.arch)
    family = {position: name for name, position in FAMILIES.items()}[getattr(cfg, f"{kind.sides[0]}_position")]
    return f"{family}_{kind.infix}{known.size if known else min(kind.sizes, key=distance)}"
