"""The model's configuration in a checkpoint: a namespace of ``fairseq-train``, or a dictionary of Hydra."""

import argparse
from typing import Any, Dict, Mapping

from torch import Tensor

from ..loading import configuration_in
from .files import CheckpointError

AVERAGES = ("ema", "ema_fp32_params")
"""Where ``--store-ema`` keeps moving averages of the parameters."""


def model_configuration(state: Dict[str, Any]) -> argparse.Namespace:
    """A copy of it, in which ``arch`` is the architecture.

    Raises:
        CheckpointError: it names no architecture.
    """
    cfg = configuration_in(state)
    if isinstance(cfg, dict) and "_name" in cfg:
        return argparse.Namespace(**{"arch": cfg["_name"], **cfg})
    if not isinstance(cfg, argparse.Namespace) or not hasattr(cfg, "arch"):
        raise CheckpointError("the configuration names no architecture: only checkpoints of fairseq-train convert")
    return argparse.Namespace(**vars(cfg))


def with_configuration(state: Dict[str, Any], cfg: argparse.Namespace) -> Dict[str, Any]:
    """A copy of ``state`` with another configuration of the model, stored as the one before was."""
    if hasattr(cfg, "_name"):
        cfg._name = cfg.arch
    if state.get("args") is not None:
        return {**state, "args": cfg}
    fields: Any = cfg
    if isinstance(state["cfg"]["model"], dict):
        fields = {name: value for name, value in vars(cfg).items() if name != "arch"}
    return {**state, "cfg": {**state["cfg"], "model": fields}}


def changed(state: Dict[str, Any], cfg: argparse.Namespace, model: Dict[str, Tensor]) -> Dict[str, Any]:
    """A copy of ``state`` with another configuration and other parameters, without what would not fit them: the
    optimizer's state and moving averages."""
    kept = {name: value for name, value in state.items() if name != "last_optimizer_state"}
    extra = {name: value for name, value in (state.get("extra_state") or {}).items() if name not in AVERAGES}
    return {**with_configuration(kept, cfg), "model": model, "extra_state": extra}


def with_task_options(state: Dict[str, Any], options: Mapping[str, Any]) -> Dict[str, Any]:
    """A copy of ``state`` in which these options replace those that the task has."""
    args, cfg = state.get("args"), state.get("cfg")
    if args is not None:
        state = {**state, "args": _replaced(args, options)}
    if isinstance(cfg, dict) and isinstance(cfg.get("task"), (dict, argparse.Namespace)):
        state = {**state, "cfg": {**cfg, "task": _replaced(cfg["task"], options)}}
    return state


def _replaced(settings: Any, options: Mapping[str, Any]) -> Any:
    entries = dict(settings if isinstance(settings, dict) else vars(settings))
    entries.update({name: options[name] for name in options.keys() & entries.keys()})
    return entries if isinstance(settings, dict) else argparse.Namespace(**entries)


def check_gap(cfg: Any, other: str) -> None:
    """Raises CheckpointError for ``--position-gap``, which the models of ``other`` lack."""
    if (getattr(cfg, "position_gap", None) or 1) > 1:
        raise CheckpointError(
            f"--position-gap {cfg.position_gap} has no form in {other}: positions there are consecutive"
        )
