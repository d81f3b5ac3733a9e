"""What the parity tests share: one input, our attention with large parameters, and how both sides are compared."""

import pytest
import torch

from fairseq_rope.attention import PositionalMultiheadAttention
from fairseq_rope.positions import POSITIONS

from ..helpers import FP32, randomised, side_config, token_positions

B, T, H, D = 2, 24, 4, 8
C = H * D

MISSING = "the peer is not installed (or not the version of setup.py): pip install .[parity]"

both_sides = pytest.mark.parametrize("causal", [False, True], ids=["encoder", "decoder"])


def ours(name, causal, heads=H, bias=True, **options):
    """Our attention with an encoding, both with parameters that are large enough for a wrong sign to be felt."""
    torch.manual_seed(0)
    kind = POSITIONS[name]
    encoding = kind(side_config(embed_dim=heads * D, num_heads=heads, causal=causal), kind.Options(**options))
    attention = PositionalMultiheadAttention(heads * D, heads, bias=bias, encoding=encoding)
    randomised(encoding, std=0.3)
    return randomised(attention, std=0.3).eval()


def states(channels=C):
    """The input of both sides, ``(B, T, C)``."""
    return torch.randn(B, T, channels, generator=torch.Generator().manual_seed(1))


def future():
    """``(T, T)``, True where the key is behind the query."""
    return torch.ones(T, T, dtype=torch.bool).triu(1)


def additive(causal):
    """The causal mask as it is added to logits, ``(1, 1, T, T)``; zeros in an encoder."""
    return torch.zeros(1, 1, T, T).masked_fill(future() & causal, torch.finfo(torch.float).min)


def load(*pairs):
    """Copies modules of ours (second) to those of the peer (first); raises if one has a bias and the other has not."""
    for peer, module in pairs:
        peer.load_state_dict(module.state_dict())


@torch.no_grad()
def assert_equal(attention, x, output, weights, after=lambda output: output):
    """Our output for ``x``, by the kernel, is ``output`` ``(B, T, C)``; our weights are ``weights`` ``(B, H, T, T)``.

    Args:
        after: what the peer does with the attention's output before it returns it.
    """
    key = token_positions(range(T))
    with attention.at(attention.encoding.prepare(key, key), causal=attention.encoding.config.causal):
        our_output, _ = attention(x.transpose(0, 1), need_weights=False)
        _, our_weights = attention(x.transpose(0, 1), need_head_weights=True)
    torch.testing.assert_close(our_weights.transpose(0, 1), weights, **FP32)
    torch.testing.assert_close(after(our_output.transpose(0, 1)), output, **FP32)
