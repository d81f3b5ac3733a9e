"""T5's bias against that of Hugging Face transformers."""

import pytest
import torch

from .helpers import MISSING, C, D, H, T, additive, assert_equal, both_sides, load, ours, states

t5 = pytest.importorskip("transformers.models.t5.modeling_t5", reason=MISSING)


@both_sides
@pytest.mark.parametrize("buckets,max_distance", [(32, 128), (8, 10)])
@torch.no_grad()
def test_the_attention_equals_t5s(buckets, max_distance, causal):
    config = t5.T5Config(
        d_model=C,
        d_kv=D,
        num_heads=H,
        is_decoder=causal,
        relative_attention_num_buckets=buckets,
        relative_attention_max_distance=max_distance,
    )
    peer = t5.T5Attention(config, has_relative_attention_bias=True, layer_idx=0).eval()
    attention, x = ours("t5", causal, bias=False, buckets=buckets, max_distance=max_distance), states()
    load(
        (peer.q, attention.q_proj), (peer.k, attention.k_proj), (peer.v, attention.v_proj), (peer.o, attention.out_proj)
    )
    peer.q.weight.mul_(D**-0.5)  # T5 leaves the content term unscaled
    peer.relative_attention_bias.weight.copy_(attention.encoding.table)
    output, _, weights = peer(x, mask=additive(causal), cache_position=torch.arange(T), output_attentions=True)
    assert_equal(attention, x, output, weights)
