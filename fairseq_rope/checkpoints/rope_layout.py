"""Converts a RoPE checkpoint between the layouts ``interleaved`` (the paper's) and ``half``, without loss."""

from typing import Any, Dict

from torch import Tensor

from ..options import SIDES, position_options
from ..positions.rope import convert_layout
from .configuration import AVERAGES, model_configuration, with_configuration
from .files import CheckpointError


def convert_checkpoint(state: Dict[str, Any], layout: str) -> Dict[str, Any]:
    """The same model in ``layout``, without the optimizer's state.

    Raises:
        CheckpointError: the model has no RoPE, has this ``layout`` already, or is not whole.
    """
    cfg = model_configuration(state)
    sides = [side for side in SIDES if getattr(cfg, f"{side}_position", None) == "rope"]
    options = position_options(cfg, "rope")
    if not sides:
        raise CheckpointError("the model has no RoPE: there is no layout to convert")
    if options.layout == layout:
        raise CheckpointError(f"the model is in the layout {layout} already")

    def converted(model: Dict[str, Tensor]) -> Dict[str, Tensor]:
        for side in sides:
            heads, width = getattr(cfg, f"{side}_attention_heads"), getattr(cfg, f"{side}_embed_dim")
            before, model = model, convert_layout(model, heads, options.dim or width // heads, layout, side)
            if all(model[name] is value for name, value in before.items()):
                raise CheckpointError(f"there are no projections of the {side}'s self-attention to convert")
        return model

    cfg.rope_layout = layout
    extra = state.get("extra_state") or {}
    averages = {name: converted(extra[name]) for name in AVERAGES if name in extra}
    entries = {**with_configuration(state, cfg), "model": converted(state["model"])}
    entries.pop("last_optimizer_state", None)
    return {**entries, "extra_state": {**extra, **averages}}
