"""Transformer-XL's attention against that of Hugging Face transformers, in the decoder, and XLNet's, on both sides."""

import pytest
import torch

from .helpers import MISSING, B, C, D, H, T, assert_equal, both_sides, future, load, ours, states

transfo_xl = pytest.importorskip("transformers.models.deprecated.transfo_xl.modeling_transfo_xl", reason=MISSING)
xlnet = pytest.importorskip("transformers.models.xlnet.modeling_xlnet", reason=MISSING)


def after(peer, x):
    """What both peers do with the attention's output ``(B, T, C)``: residual connection and layer norm."""
    return lambda output: peer.layer_norm(x + output)


@torch.no_grad()
def test_the_decoders_attention_equals_transformer_xls():
    attention, x = ours("xl", causal=True, bias=False), states()
    peer = transfo_xl.RelPartialLearnableMultiHeadAttn(H, C, D, dropout=0.0).eval()
    load((peer.o_net, attention.out_proj), (peer.r_net, attention.position))
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    peer.qkv_net.weight.copy_(torch.cat([projection.weight for projection in projections]))
    peer.r_w_bias.copy_(attention.encoding.u)
    peer.r_r_bias.copy_(attention.encoding.v)
    # distances from the farthest to 0, as in the peer's whole model, which does not run (it misnames an argument)
    sinusoids = transfo_xl.PositionalEmbedding(C)(torch.arange(T - 1.0, -1.0, -1.0))
    output, weights = peer(x.transpose(0, 1), sinusoids, attn_mask=future()[:, :, None], output_attentions=True)
    assert_equal(attention, x, output.transpose(0, 1), weights.permute(2, 3, 0, 1), after(peer, x))


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
    assert_equal(attention, x, output.transpose(0, 1), weights.permute(2, 3, 0, 1), after(peer, x))
