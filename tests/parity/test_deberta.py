"""DeBERTa's disentangled attention against both versions of Hugging Face transformers.

The peers, like the authors' code, look position-to-content up at ``d(i, j)``, as content-to-position; eq. 4 of the
paper, and ours, have ``d(j, i)``. To compare them, content-to-position reads the first half of the table's channels
only and position-to-content the second one, which the peers get in reverse order.
"""

import pytest
import torch

from .helpers import MISSING, C, H, T, assert_equal, both_sides, future, load, ours, states

v1 = pytest.importorskip("transformers.models.deberta.modeling_deberta", reason=MISSING)
v2 = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2", reason=MISSING)

SPANS = [5, T, 40]  # with clipping, without, and longer than the sentence
FIRST, SECOND = slice(C // 2), slice(C // 2, C)  # channels


def config(kind, span, **changes):
    return kind(
        vocab_size=8,
        hidden_size=C,
        num_attention_heads=H,
        num_hidden_layers=1,
        intermediate_size=8,
        relative_attention=True,
        max_relative_positions=span,
        pos_att_type=["c2p", "p2c"],
        **changes,
    )


@torch.no_grad()
def prepared(causal, **options):
    """Our attention, with a table that can be given to the peers, and that table as the peers need it."""
    attention = ours("deberta", causal, **options)
    source = attention if attention.encoding.options.share_projections else attention.position
    source.k_proj.weight[:, SECOND] = 0
    source.q_proj.weight[:, FIRST] = 0
    table = attention.encoding.table
    table[0, SECOND] = table[1, SECOND]  # for i - j = k and k - 1, which share their row in the peers
    reverse = table.clone()
    reverse[1:, SECOND] = table[1:, SECOND].flip(0)
    reverse[0, SECOND] = table[-1, SECOND]
    return attention, reverse


def assert_equals_encoder(attention, encoder, x, causal):
    """The first layer of the peer's encoder, with the relative positions and embeddings that the encoder gives it."""
    mask = encoder.get_attention_mask((~(future() & causal))[None])
    output, weights = encoder.layer[0].attention.self(
        x, mask, output_attentions=True, relative_pos=encoder.get_rel_pos(x), rel_embeddings=encoder.get_rel_embedding()
    )
    assert_equal(attention, x, attention.out_proj(output), weights)  # the peer's is in another module


@both_sides
@pytest.mark.parametrize("span", SPANS)
@torch.no_grad()
def test_the_attention_equals_debertas(span, causal):
    attention, table = prepared(causal, span=span)
    encoder = v1.DebertaEncoder(config(v1.DebertaConfig, span)).eval()
    peer = encoder.layer[0].attention.self
    encoder.rel_embeddings.weight.copy_(table)
    load((peer.pos_proj, attention.position.k_proj))
    peer.pos_q_proj.weight.copy_(attention.position.q_proj.weight)
    peer.pos_q_proj.bias.zero_()  # not in the paper
    weights = [p.weight.unflatten(0, (H, -1)) for p in (attention.q_proj, attention.k_proj, attention.v_proj)]
    peer.in_proj.weight.copy_(torch.stack(weights, dim=1).flatten(0, 2))  # (H, 3, D, C) -> (3 C, C)
    peer.q_bias.copy_(attention.q_proj.bias)
    peer.v_bias.copy_(attention.v_proj.bias)
    attention.k_proj.bias.zero_()  # the peer has none
    assert_equals_encoder(attention, encoder, states(), causal)


@both_sides
@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("share", [False, True])
@torch.no_grad()
def test_the_attention_equals_deberta_v2s_without_buckets(share, span, causal):
    attention, table = prepared(causal, span=span, share_projections=share)
    encoder = v2.DebertaV2Encoder(config(v2.DebertaV2Config, span, share_att_key=share)).eval()
    peer = encoder.layer[0].attention.self
    encoder.rel_embeddings.weight.copy_(table)
    load((peer.query_proj, attention.q_proj), (peer.key_proj, attention.k_proj), (peer.value_proj, attention.v_proj))
    if not share:
        peer.pos_key_proj.weight.copy_(attention.position.k_proj.weight)
        peer.pos_query_proj.weight.copy_(attention.position.q_proj.weight)
        for projection in (peer.pos_key_proj, peer.pos_query_proj):
            projection.bias.zero_()  # not in the paper
    assert_equals_encoder(attention, encoder, states(), causal)
