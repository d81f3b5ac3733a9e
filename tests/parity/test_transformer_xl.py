"""Transformer-XL's attention against that of XLNet in Hugging Face transformers."""

import pytest
import torch

from .helpers import MISSING, B, C, D, H, T, assert_equal, both_sides, future, ours, states

xlnet = pytest.importorskip("transformers.models.xlnet.modeling_xlnet", reason=MISSING)


@both_sides
@torch.no_grad()
def test_the_attention_equals_xlnets(causal):
    attention, x = ours("xl", causal, bias=False), states()
    model = xlnet.XLNetModel(
        xlnet.XLNetConfig(vocab_size=8, d_model=C, n_head=H, d_inner=8, n_layer=1, attn_type="uni" if causal else "bi")
    ).eval()
    peer = model.layer[0].rel_attn
    projections = (attention.q_proj, attention.k_proj, attention.v_proj, attention.position)
    for parameter, projection in zip((peer.q, peer.k, peer.v, peer.r), projections):
        parameter.copy_(projection.weight.t().unflatten(1, (H, D)))
    peer.o.copy_(attention.out_proj.weight.unflatten(1, (H, D)))
    peer.r_w_bias.copy_(attention.encoding.u)
    peer.r_r_bias.copy_(attention.encoding.v)
    output, _, weights = peer(
        x.transpose(0, 1),
        None,
        attn_mask_h=(future() & causal)[:, :, None, None].float(),
        attn_mask_g=None,
        r=model.relative_positional_encoding(T, T, bsz=B),
        seg_mat=None,
        output_attentions=True,
    )
    expected = output.transpose(0, 1), weights.permute(2, 3, 0, 1)
    assert_equal(attention, x, *expected, after=lambda output: peer.layer_norm(x + output))
