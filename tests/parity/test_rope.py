"""RoPE in halves, partly and scaled against Phi of Hugging Face transformers; RoFormer's is in test_checkpoints.py."""

import pytest
import torch

from .helpers import MISSING, B, C, D, H, T, additive, assert_equal, both_sides, load, ours, states

phi = pytest.importorskip("transformers.models.phi.modeling_phi", reason=MISSING)

SIZES = dict(vocab_size=8, hidden_size=C, num_attention_heads=H, num_hidden_layers=1, intermediate_size=8)


@both_sides
@pytest.mark.parametrize(
    "options,config",
    [
        ({}, dict(partial_rotary_factor=1.0)),
        (dict(dim=4, base=500.0), dict(partial_rotary_factor=0.5, rope_theta=500.0)),
        (
            dict(scaling="linear", scaling_factor=4.0),
            dict(partial_rotary_factor=1.0, rope_scaling=dict(rope_type="linear", factor=4.0)),
        ),
        (
            # the peer's factor is that of the sentence's length to the longest one in training
            dict(dim=6, scaling="ntk", scaling_factor=3.0),
            dict(
                partial_rotary_factor=0.75,
                max_position_embeddings=T // 3,
                rope_scaling=dict(rope_type="dynamic", factor=1.0),
            ),
        ),
    ],
    ids=["whole", "partial", "linear", "ntk"],
)
@torch.no_grad()
def test_rope_in_halves_equals_phis_rotation(options, config, causal):
    config = phi.PhiConfig(attn_implementation="eager", **SIZES, **config)
    peer = phi.PhiAttention(config, layer_idx=0).eval()
    attention, x = ours("rope", causal, layout="half", **options), states()
    assert peer.rotary_ndims == options.get("dim", D)
    load(
        (peer.q_proj, attention.q_proj),
        (peer.k_proj, attention.k_proj),
        (peer.v_proj, attention.v_proj),
        (peer.dense, attention.out_proj),
    )
    angles = phi.PhiRotaryEmbedding(config)(x, torch.arange(T).expand(B, T))
    assert_equal(attention, x, *peer(x, angles, additive(causal)))
