"""The configuration of every checkpoint that fairseq loads is checked, and its model knows what it was trained with."""

from pathlib import Path
from typing import Any, Callable

from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import OmegaConf

from ..checkpoints.evaluated import check_evaluated
from ..fields import add_overrides
from ..loading import FORMER_FLAG, Parameters, configuration_in, dictionaries_of, forget_former_flag
from ..options import encodings_of, is_position_option


def checks_options(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Refuses programs among the options, and lets the parameters carry encodings and dictionaries to the model that
    loads them (:mod:`fairseq_rope.loading`). Generation, validation, training and ``from_pretrained`` load so."""

    def load_checkpoint_to_cpu(path: Any, *args: Any, **kwargs: Any) -> Any:
        state = stock(path, *args, **kwargs)
        try:
            check_evaluated(state.get("args"), state.get("cfg"))
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        if "model" in state:
            cfg = configuration_in(state)
            # overrides replace the options that the model was trained with
            overrides = kwargs.get("arg_overrides", args[0] if args else None) or {}
            trained = stock(path) if any(map(is_position_option, overrides)) else state
            if overrides and OmegaConf.is_config(cfg) and encodings_of(cfg):
                add_overrides(cfg, overrides, ARCH_MODEL_REGISTRY[cfg._name].add_args)
            if FORMER_FLAG not in overrides:
                forget_former_flag(cfg)
            encodings, dictionaries = encodings_of(configuration_in(trained)), dictionaries_of(trained, Path(path))
            state["model"] = Parameters.of(state["model"], encodings, dictionaries)
        return state

    return load_checkpoint_to_cpu
