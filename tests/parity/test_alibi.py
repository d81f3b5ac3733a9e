"""ALiBi against x-transformers."""

import pytest
import torch

from .helpers import MISSING, D, assert_equal, both_sides, load, ours, states

x_transformers = pytest.importorskip("x_transformers.x_transformers", reason=MISSING)


@both_sides
@pytest.mark.parametrize("heads", [4, 6, 12, 20])
@torch.no_grad()
def test_the_attention_equals_alibis(heads, causal):
    attention, x = ours("alibi", causal, heads=heads, bias=False), states(heads * D)
    peer = x_transformers.Attention(heads * D, dim_head=D, heads=heads, causal=causal).eval()
    load(
        (peer.to_q, attention.q_proj),
        (peer.to_k, attention.k_proj),
        (peer.to_v, attention.v_proj),
        (peer.to_out, attention.out_proj),
    )
    output, found = peer(x, return_intermediates=True, rel_pos=x_transformers.AlibiPositionalBias(heads))
    assert_equal(attention, x, output, found.post_softmax_attn)
