"""The beams of the fast search at their limits: the longest output, few words, no probability; as fairseq's beams."""

import itertools

import pytest
import torch

from fairseq_rope.decoding.beams import Beams

from ..helpers import EOS
from .searching import assert_same, batch, both, generator, lively


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_at_the_maximum_length_the_end_follows_and_nothing_else(dtype):
    """Whatever is banned, penalised or suppressed."""
    model = lively().to(dtype=dtype)
    options = dict(max_len_b=4, min_len=4, unk_penalty=1.5, tokens_to_suppress=("w3",))
    source = batch()["net_input"]
    search = generator(model, **options)
    with torch.no_grad():
        encoder_out = model.encoder(**source)
        beams = Beams(search, source["src_tokens"], search.decoder_behind(encoder_out, source["src_tokens"]), [EOS])
        beams.tokens[:, 1:5] = 7
        for step in range(5):
            log_probs, tokens = beams._best_continuations(step, 6)
            assert (log_probs.size(1) == 1) == (step == 4)
        logits = model.decoder(beams.tokens[:, :5], encoder_out)[0][:, -1]
    assert log_probs.shape == (5, 1) and log_probs.dtype == torch.float32
    assert tokens.tolist() == [[EOS]] * 5
    digits = 5e-2 if dtype == torch.bfloat16 else 1e-5  # of a full pass in place of a step with a cache
    torch.testing.assert_close(log_probs[:, 0], logits.float().log_softmax(-1)[:, EOS], rtol=digits, atol=digits)


def test_beams_larger_than_the_vocabulary_equal_fairseqs():
    # with positions in the values: else </s></s> is exactly as probable for each word as </s>
    cases = itertools.product((5, 9), (2, 8, 50), ({"unk_penalty": 0.7}, {"min_len": 3}, {"min_len": 0}))
    for types, beam, options in cases:
        model = lively("transformer_learned_tiny", types=types)
        assert_same(*both(model, batch((4, 2, 5), types=types), types, beam_size=beam, max_len_b=6, **options))


def test_a_hypothesis_that_fills_a_place_ends_only_once():
    """With as many beams as words that may follow, one that has ended takes the last place and would end again."""
    for types, seed in ((5, 37), (6, 3), (9, 3)):
        model = lively("transformer_learned_tiny", seed, types=types)
        source = batch((4, 2, 5), types=types, seed=seed)
        assert_same(*both(model, source, types, beam_size=types - 1, max_len_b=6, min_len=0))


def test_tokens_without_probability_are_never_chosen():
    """Logits of -inf, as of a vocabulary that is restricted."""
    model = lively()
    with torch.no_grad():
        model.decoder.layer_norm = torch.nn.LayerNorm(32)
        model.decoder.layer_norm.weight[0], model.decoder.layer_norm.bias[0] = 0, 1  # the first feature is 1
        model.decoder.output_projection.weight[10:38, 0] = -torch.inf
    actual, expected = both(model, batch(), beam_size=4, max_len_b=8)
    assert_same(actual, expected)
    tokens = torch.cat([h["tokens"] for hypotheses in actual for h in hypotheses])
    assert not ((tokens >= 10) & (tokens < 38)).any()
