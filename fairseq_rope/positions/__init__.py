"""The registry of position encodings: name, as in ``--encoder-position`` and ``--decoder-position``, to class."""

from typing import Dict, Type

from .absolute import LearnedEncoding, SinusoidalEncoding
from .base import PositionEncoding, Stack
from .rope import RotaryEncoding

POSITIONS: Dict[str, Type[PositionEncoding]] = {
    "none": PositionEncoding,
    "sinusoidal": SinusoidalEncoding,
    "learned": LearnedEncoding,
    "rope": RotaryEncoding,
}

__all__ = ["POSITIONS", "PositionEncoding", "Stack"]
