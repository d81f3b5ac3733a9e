"""Shaw's relative keys against those of Wav2Vec2-BERT of Hugging Face transformers, which has no relative values."""

import pytest
import torch

from .helpers import MISSING, C, H, T, additive, assert_equal, both_sides, load, ours, states

wav2vec2_bert = pytest.importorskip("transformers.models.wav2vec2_bert.modeling_wav2vec2_bert", reason=MISSING)


@both_sides
@pytest.mark.parametrize("clip", [1, 3, T])
@torch.no_grad()
def test_the_attention_with_relative_keys_equals_wav2vec2_berts(clip, causal):
    config = wav2vec2_bert.Wav2Vec2BertConfig(
        hidden_size=C,
        num_attention_heads=H,
        position_embeddings_type="relative_key",
        left_max_position_embeddings=clip,
        right_max_position_embeddings=clip,
    )
    peer = wav2vec2_bert.Wav2Vec2BertSelfAttention(config).eval()
    attention, x = ours("shaw", causal, clip=clip, no_values=True), states()
    load(
        (peer.linear_q, attention.q_proj),
        (peer.linear_k, attention.k_proj),
        (peer.linear_v, attention.v_proj),
        (peer.linear_out, attention.out_proj),
    )
    peer.distance_embedding.weight.copy_(attention.position.keys[0])
    assert_equal(attention, x, *peer(x, attention_mask=additive(causal)))
