"""The registry of position encodings: name, as in ``--encoder-position`` and ``--decoder-position``, to class."""

from typing import Dict, Type

from .absolute import LearnedEncoding, SinusoidalEncoding
from .alibi import LinearBiasEncoding
from .base import PositionEncoding, SideConfig, TokenPositions
from .deberta import DisentangledEncoding
from .fire import InterpolatedBiasEncoding
from .kerple import LogarithmicBiasEncoding
from .linear import LinearLearnedEncoding, LinearRotaryEncoding
from .pope import PolarEncoding
from .rope import RotaryEncoding
from .shaw import RelativeEncoding
from .t5 import BucketedBiasEncoding, LearnedBucketedEncoding
from .transformer_xl import TransformerXLEncoding
from .tupe import UntiedAbsoluteEncoding, UntiedRelativeEncoding
from .untied import LearnedUntiedEncoding

POSITIONS: Dict[str, Type[PositionEncoding]] = {
    "none": PositionEncoding,
    "sinusoidal": SinusoidalEncoding,
    "learned": LearnedEncoding,
    "learned_t5": LearnedBucketedEncoding,
    "learned_untied": LearnedUntiedEncoding,
    "rope": RotaryEncoding,
    "pope": PolarEncoding,
    "tupe_a": UntiedAbsoluteEncoding,
    "tupe_r": UntiedRelativeEncoding,
    "shaw": RelativeEncoding,
    "t5": BucketedBiasEncoding,
    "xl": TransformerXLEncoding,
    "deberta": DisentangledEncoding,
    "alibi": LinearBiasEncoding,
    "kerple": LogarithmicBiasEncoding,
    "fire": InterpolatedBiasEncoding,
    "linear": LinearRotaryEncoding,
    "linear_learned": LinearLearnedEncoding,
}


def name_of(position: PositionEncoding) -> str:
    """The encoding's name in the registry; raises ValueError if it is not there."""
    for name, encoding in POSITIONS.items():
        if type(position) is encoding:
            return name
    raise ValueError(f"{type(position).__name__} has no name in fairseq_rope.positions.POSITIONS")


__all__ = ["POSITIONS", "PositionEncoding", "SideConfig", "TokenPositions", "name_of"]
