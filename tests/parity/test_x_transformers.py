"""ALiBi and RoPE (interleaved) against x-transformers."""

import pytest
import torch

from fairseq_rope.positions.alibi import slopes

from .helpers import MISSING, D, T, assert_equal, both_sides, load, ours, states

x_transformers = pytest.importorskip("x_transformers.x_transformers", reason=MISSING)


@torch.no_grad()
def assert_equals_peer(attention, causal, **position):
    """``position``: what the peer's attention receives."""
    heads = attention.num_heads
    x, peer = states(heads * D), x_transformers.Attention(heads * D, dim_head=D, heads=heads, causal=causal).eval()
    load(
        (peer.to_q, attention.q_proj),
        (peer.to_k, attention.k_proj),
        (peer.to_v, attention.v_proj),
        (peer.to_out, attention.out_proj),
    )
    output, intermediates = peer(x, return_intermediates=True, **position)
    assert_equal(attention, x, output, intermediates.post_softmax_attn)


@pytest.mark.parametrize("heads", range(1, 33))
def test_the_slopes_equal_alibis_for_any_number_of_heads(heads):
    peer = x_transformers.AlibiPositionalBias(heads)
    torch.testing.assert_close(slopes(heads), peer.slopes.flatten())


@both_sides
@pytest.mark.parametrize("heads", [4, 6, 12])
def test_the_attention_equals_alibis(heads, causal):
    attention = ours("alibi", causal, heads=heads, bias=False)
    assert_equals_peer(attention, causal, rel_pos=x_transformers.AlibiPositionalBias(heads))


@both_sides
@pytest.mark.parametrize(
    "options,config",
    [
        ({}, {}),
        (dict(dim=4, base=500.0), dict(base=500)),
        (dict(scaling="linear", scaling_factor=4.0), dict(interpolation_factor=4.0)),
        (dict(scaling="ntk", scaling_factor=3.0), dict(base_rescale_factor=3.0)),
    ],
    ids=["whole", "partial", "linear", "ntk"],
)
def test_interleaved_rope_equals_the_rotation(options, config, causal):
    rotary = x_transformers.RotaryEmbedding(options.get("dim", D), **config)
    attention = ours("rope", causal, bias=False, **options)
    assert_equals_peer(attention, causal, rotary_pos_emb=rotary.forward_from_seq_len(T))
