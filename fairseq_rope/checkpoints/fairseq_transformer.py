"""Converts a checkpoint of fairseq's plain transformer into one of this plugin with the same positions, and back.

::

    fairseq-rope convert CHECKPOINT --to plugin --out FILE
    fairseq-rope convert CHECKPOINT --to fairseq --out FILE

For each side, sinusoidal positions become ``sinusoidal``, learned ones ``learned``, and no positions ``none``.
"""

import math
from typing import Any, Dict, List

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.models.transformer import DEFAULT_MAX_SOURCE_POSITIONS, DEFAULT_MAX_TARGET_POSITIONS, TransformerModel
from fairseq.models.transformer.transformer_legacy import base_architecture
from fairseq.modules import SinusoidalPositionalEmbedding
from torch import Tensor

from ..architectures import FAMILIES, SIZES
from ..layers import FAST_PATH_COPIES
from ..options import SIDES, reject_unsupported
from ..translation import RoFormerModel
from .configuration import model_configuration, with_configuration, with_task
from .files import CheckpointError

MEMORY = "plain_transformer"
"""The entry of a converted checkpoint that serves the way back: the former architecture, and unused tensors."""

OURS = "fast_translation"
"""The task of this plugin that becomes fairseq's own."""

COMMON = ("sinusoidal", "learned", "none")
"""The encodings that fairseq's transformer also has."""


def convert_checkpoint(state: Dict[str, Any], to: str) -> Dict[str, Any]:
    """The same model as this plugin's or as fairseq's own; ``state`` does not change.

    Conversion there and back gives the same tensors. The optimizer's state is kept if both sides have the same
    parameters in the same order: not with learned positions, and not if the encoder layers of fairseq's version have
    further parameters.

    Args:
        state: a loaded checkpoint.
        to: ``plugin`` or ``fairseq``.

    Raises:
        CheckpointError: the model is of another kind, is converted already, or has an option that the other side lacks.
    """
    if getattr(model_configuration(state), "quant_noise_scalar", None) not in (None, 0.0):
        raise CheckpointError(
            "--quant-noise-scalar does not convert: fairseq's attention rounds other weights than ours"
        )
    return {"plugin": _to_plugin, "fairseq": _to_fairseq}[to](state)


def _to_plugin(state: Dict[str, Any]) -> Dict[str, Any]:
    cfg = model_configuration(state)
    arch = cfg.arch
    if _is_ours(arch):
        raise CheckpointError(f"{arch} is an architecture of this plugin already: there is nothing to convert")
    if ARCH_MODEL_REGISTRY.get(arch) is not TransformerModel:
        raise CheckpointError(f"{arch} is not an architecture of fairseq's plain transformer: only those convert")
    base_architecture(cfg)  # what older versions of fairseq did not store
    positions = {}
    for side in SIDES:
        learned = getattr(cfg, f"{side}_learned_pos")
        positions[side] = "none" if cfg.no_token_positional_embeddings else "learned" if learned else "sinusoidal"
        setattr(cfg, f"{side}_position", positions[side])
        setattr(cfg, f"{side}_learned_pos", False)
    cfg.no_token_positional_embeddings = True
    try:
        reject_unsupported(cfg)
    except ValueError as error:
        raise CheckpointError(str(error)) from error

    prefixes = tuple(f"{side}.embed_positions." for side in SIDES)
    model = {name: value for name, value in state["model"].items() if not name.startswith(prefixes)}
    unused = {name: value for name, value in state["model"].items() if name.startswith(prefixes)}
    for side in _learned(positions):
        name, rows = f"{side}.embed_positions.weight", _max_positions(cfg, side)
        table = _tensor(unused, name)
        before = len(table) - rows  # fairseq counts from padding_idx + 1
        if before < 1:
            raise CheckpointError(f"{name} has {len(table)} rows, too few for {rows} positions and the padding")
        unused[name], model[f"{side}.position.weight"] = table[:before].clone(), table[before:].clone()

    family = {position: name for name, position in FAMILIES.items()}[positions["encoder"]]
    converted = _converted(state, cfg, f"{family}_{_nearest_size(cfg)}", model, positions)
    return {**converted, MEMORY: {"arch": arch, "unused": unused}}


def _to_fairseq(state: Dict[str, Any]) -> Dict[str, Any]:
    cfg = model_configuration(state)
    if ARCH_MODEL_REGISTRY.get(cfg.arch) is TransformerModel:
        raise CheckpointError(f"{cfg.arch} is an architecture of fairseq's already: there is nothing to convert")
    if not _is_ours(cfg.arch):
        raise CheckpointError(f"{cfg.arch} is not a translation model of this plugin: only those convert to fairseq's")
    positions = {side: getattr(cfg, f"{side}_position", "unknown") for side in SIDES}
    for side, position in positions.items():
        if position not in COMMON:
            raise CheckpointError(f"the {side}'s positions are {position}, and fairseq has only {', '.join(COMMON)}")
    bare = [side for side in SIDES if positions[side] == "none"]
    if len(bare) == 1:
        raise CheckpointError(f"the {bare[0]} alone has no positions, and fairseq has them on both sides or on none")

    memory = state.get(MEMORY) or {"arch": "transformer", "unused": _buffers(positions)}
    model = {**state["model"], **memory["unused"]}
    for side in SIDES:
        delattr(cfg, f"{side}_position")
        setattr(cfg, f"{side}_learned_pos", positions[side] == "learned")
    for side in _learned(positions):
        name = f"{side}.embed_positions.weight"
        table = _tensor(model, f"{side}.position.weight")
        before = memory["unused"].get(name, table.new_zeros(Dictionary().pad() + 1, table.size(1)))
        model[name] = torch.cat([before, table])
        del model[f"{side}.position.weight"]
    cfg.no_token_positional_embeddings = bool(bare)
    converted = with_task(_converted(state, cfg, memory["arch"], model, positions), OURS, "translation")
    converted.pop(MEMORY, None)
    return converted


def _is_ours(arch: str) -> bool:
    return ARCH_MODEL_REGISTRY.get(arch) is RoFormerModel


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
    return [side for side in SIDES if positions[side] == "learned"]


def _tensor(model: Dict[str, Tensor], name: str) -> Tensor:
    if name not in model:
        raise CheckpointError(f"there is no parameter {name}, which the configuration asks for")
    return model[name]


def _buffers(positions: Dict[str, str]) -> Dict[str, Tensor]:
    """The tensors that the installed fairseq stores for its sinusoids: one number in official versions."""
    kept = SinusoidalPositionalEmbedding(embedding_dim=4, padding_idx=0, init_size=1).state_dict()
    sides = [side for side in SIDES if positions[side] == "sinusoidal"]
    return {f"{side}.embed_positions.{name}": value for side in sides for name, value in kept.items()}


def _max_positions(cfg: Any, side: str) -> int:
    if side == "encoder":
        return getattr(cfg, "max_source_positions", None) or DEFAULT_MAX_SOURCE_POSITIONS
    return getattr(cfg, "max_target_positions", None) or DEFAULT_MAX_TARGET_POSITIONS


def _nearest_size(cfg: Any) -> str:
    """The size whose dimensions have the nearest ratios; the configuration has the real dimensions anyway."""

    def distance(size: str) -> float:
        dimensions = {name: value for name, value in SIZES[size].items() if name != "dropout"}
        pairs = [(getattr(cfg, f"{side}_{name}"), value) for side in SIDES for name, value in dimensions.items()]
        return sum(abs(math.log(max(given, 1) / value)) for given, value in pairs)

    return min(SIZES, key=distance)
