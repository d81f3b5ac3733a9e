"""How CTranslate2's engine (4.8) computes position encodings, as far as it can.

An encoding of the registry becomes an :class:`Expression`: options of the engine's specification of a stack, and the
parameters or tables that go into it. The names and shapes of both are the engine's.
"""

from typing import Any, Callable, Dict, NamedTuple

import numpy as np
import torch
from ctranslate2.specs import RotaryScalingType, model_spec
from torch import Tensor

from ..positions import PositionEncoding, name_of
from ..positions.rope import WITH_ORIGINAL_LENGTH
from .parameters import Parameters


class Expression(NamedTuple):
    """How the engine computes one encoding."""

    options: Callable[[Any], Dict[str, Any]] = lambda position: {}
    """The encoding, to keyword arguments of the engine's specification of a stack."""

    fill: Callable[[Any, Any, Parameters], None] = lambda spec, position, parameters: None
    """Fills the specification of a stack (1st argument) for an encoding (2nd) from its parameters (3rd)."""


def expression(position: PositionEncoding) -> Expression:
    """How the engine computes ``position``.

    Raises:
        ValueError: the engine cannot compute it.
    """
    name = name_of(position)
    if name not in EXPRESSIBLE:
        raise ValueError(
            f"--{position.config.side}-position {name} cannot be exported: CTranslate2's engine has no term for it; "
            "use fairseq"
        )
    return EXPRESSIBLE[name]


def _set_rows(spec: Any, rows: Tensor) -> None:
    spec.position_encodings.encodings = rows.detach().to("cpu", torch.float32, copy=True).numpy()


def _fill_sinusoids(spec: Any, position: Any, parameters: Parameters) -> None:
    rows = position.config.max_positions
    _set_rows(spec, position.table(torch.device("cpu"), rows)[:rows])


def _fill_learned(spec: Any, position: Any, parameters: Parameters) -> None:
    spec.position_encodings.encodings = parameters.take(f"{position.config.side}.position.weight")


def _fill_zeros(spec: Any, position: Any, parameters: Parameters) -> None:
    """Without a table the engine would add sinusoids."""
    _set_rows(spec, torch.zeros(position.config.max_positions, position.config.embed_dim))


def _rotary_options(position: Any) -> Dict[str, Any]:
    options = position.options
    if options.scaling in WITH_ORIGINAL_LENGTH:
        raise ValueError(
            f"--rope-scaling {options.scaling} cannot be exported: CTranslate2's engine lacks it; use linear or ntk"
        )
    base = position.frequency_base()
    if base > float(np.finfo(np.float32).max):
        raise ValueError(f"RoPE of base {base:g} cannot be exported: CTranslate2's engine has it in fp32")
    linear = options.scaling == "linear"
    return dict(
        rotary_dim=position.dim,
        rotary_interleave=options.layout == "interleaved",
        rotary_base=base,
        rotary_scaling_type=RotaryScalingType.Linear if linear else None,
        rotary_scaling_factor=options.scaling_factor if linear else 1,
    )


def _shaw_options(position: Any) -> Dict[str, Any]:
    if position.options.per_head:
        raise ValueError(
            "--shaw-per-head cannot be exported: in CTranslate2's engine all heads of a layer share their tables"
        )
    return {"relative_position": True}


def _fill_shaw(spec: Any, position: Any, parameters: Parameters) -> None:
    for i, layer in enumerate(spec.layer):
        attention, prefix = layer.self_attention, f"{position.config.side}.layers.{i}.self_attn.position"
        attention.relative_position_keys = parameters.take(f"{prefix}.keys")[0]  # (1, R, D) -> (R, D)
        attention.relative_position_values = (
            model_spec.OPTIONAL if position.options.no_values else parameters.take(f"{prefix}.values")[0]
        )


def _fill_t5(spec: Any, position: Any, parameters: Parameters) -> None:
    """Fills the first layer's table: the engine hands it on to the other layers, which share it here too."""
    table = parameters.take(f"{position.config.side}.position.table")  # (buckets, H)
    for layer in spec.layer:
        layer.self_attention.relative_attention_bias = table
        layer.self_attention.relative_attention_max_distance = np.int32(position.options.max_distance)


def _alibi_options(position: Any) -> Dict[str, Any]:
    if not position.config.causal:
        raise ValueError(
            "--encoder-position alibi cannot be exported: CTranslate2's engine has ALiBi in the decoder only; "
            "use fairseq"
        )
    return {"alibi": True, "alibi_use_positive_positions": False}


EXPRESSIBLE: Dict[str, Expression] = {
    "none": Expression(fill=_fill_zeros),
    "sinusoidal": Expression(fill=_fill_sinusoids),
    "learned": Expression(fill=_fill_learned),
    "rope": Expression(_rotary_options),
    "shaw": Expression(_shaw_options, _fill_shaw),
    "t5": Expression(lambda position: {"relative_attention_bias": True}, _fill_t5),
    "alibi": Expression(_alibi_options),
}
"""Name in the registry, to how the engine computes it."""
