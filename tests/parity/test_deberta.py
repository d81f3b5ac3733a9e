"""DeBERTa's disentangled attention against version 2 of Hugging Face transformers, without its buckets.

The peer, like the authors' code, looks position-to-content up at ``d(i, j)``, as content-to-position; eq. 4 of the
paper, and ours, have ``d(j, i)``. To compare them, content-to-position reads the first half of the table's channels
only and position-to-content the second one, which the peer gets in reverse order.
"""

import pytest
import torch

from .helpers import MISSING, C, H, T, assert_equal, both_sides, future, load, ours, states

deberta = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2", reason=MISSING)

SPANS = [5, T, 40]  # with clipping, without, and longer than the sentence
FIRST, SECOND = slice(C // 2), slice(C // 2, C)  # channels


@torch.no_grad()
def prepared(causal, **options):
    """Our attention, with a table that can be given to the peer, and that table as the peer needs it."""
    attention = ours("deberta", causal, **options)
    source = attention if attention.encoding.options.share_projections else attention.position
    source.k_proj.weight[:, SECOND] = 0
    source.q_proj.weight[:, FIRST] = 0
    table = attention.encoding.table
    table[0, SECOND] = table[1, SECOND]  # for i - j = k and k - 1, which share their row in the peer
    reverse = table.clone()
    reverse[1:, SECOND] = table[1:, SECOND].flip(0)
    reverse[0, SECOND] = table[-1, SECOND]
    return attention, reverse


@both_sides
@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("share", [False, True])
@torch.no_grad()
def test_the_attention_equals_debertas(share, span, causal):
    attention, table = prepared(causal, span=span, share_projections=share)
    config = deberta.DebertaV2Config(
        vocab_size=8,
        hidden_size=C,
        num_attention_heads=H,
        num_hidden_layers=1,
        intermediate_size=8,
        relative_attention=True,
        max_relative_positions=span,
        pos_att_type=["c2p", "p2c"],
        share_att_key=share,
    )
    encoder, x = deberta.DebertaV2Encoder(config).eval(), states()
    peer = encoder.layer[0].attention.self
    encoder.rel_embeddings.weight.copy_(table)
    load((peer.query_proj, attention.q_proj), (peer.key_proj, attention.k_proj), (peer.value_proj, attention.v_proj))
    if not share:
        peer.pos_key_proj.weight.copy_(attention.position.k_proj.weight)
        peer.pos_query_proj.weight.copy_(attention.position.q_proj.weight)
        for projection in (peer.pos_key_proj, peer.pos_query_proj):
            projection.bias.zero_()  # not in the paper
    mask = encoder.get_attention_mask((~(future() & causal))[None])
    relative = dict(relative_pos=encoder.get_rel_pos(x), rel_embeddings=encoder.get_rel_embedding())
    output, weights = peer(x, mask, output_attentions=True, **relative)
    assert_equal(attention, x, attention.out_proj(output), weights)  # the peer's is in another module
