"""Self-attention with positions, and the attention to the encoder."""

from typing import Dict, Type

from .cache import IncrementalState
from .encoder import EncoderAttention
from .linear import LinearAttention
from .multihead import PositionalMultiheadAttention

SELF_ATTENTION: Dict[str, Type[PositionalMultiheadAttention]] = {
    "softmax": PositionalMultiheadAttention,
    "linear": LinearAttention,
}
"""The kinds of self-attention, by :attr:`fairseq_rope.positions.PositionEncoding.attention`."""

__all__ = ["SELF_ATTENTION", "EncoderAttention", "IncrementalState", "LinearAttention", "PositionalMultiheadAttention"]
