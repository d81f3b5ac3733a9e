"""What the fast search leaves to fairseq's own, whose hypotheses are the same to the last bit."""

from functools import partial

import pytest
import torch
from fairseq import search

from ..helpers import VOCABULARY, override
from .searching import CLOSE, EXACT, assert_same, batch, both, generator, lively


class LanguageModel(torch.nn.Module):
    """Of equal probabilities."""

    def forward(self, tokens):
        return (torch.zeros(*tokens.shape, VOCABULARY),)

    def get_normalized_probs(self, out, log_probs, sample):
        return out[0].log_softmax(-1)


def prepared(model, **options):
    model.make_generation_fast_(**options)
    return model


CONSTRAINTS = {"constraints": torch.tensor([[1, 12, 0]] * 5)}  # one constraint, of one word
STOCK_WAYS = {
    "sampling": dict(strategy=lambda words: search.Sampling(words, sampling_topk=5)),
    "diverse beams": dict(strategy=lambda words: search.DiverseBeamSearch(words, 2, 0.5)),
    "diverse siblings": dict(strategy=lambda words: search.DiverseSiblingsSearch(words, 0.5)),
    "length of the source": dict(
        strategy=lambda words: search.LengthConstrainedBeamSearch(words, 1, 0, 1, 0), match_source_len=True
    ),
    "length of the source, plain beams": dict(match_source_len=True),
    "constraints": dict(
        strategy=lambda words: search.LexicallyConstrainedBeamSearch(words, "ordered"), generate=CONSTRAINTS
    ),
    "prefixes": dict(generate={"prefix_tokens": torch.arange(5, 15).view(5, 2)}),
    "no repeated n-grams": dict(no_repeat_ngram_size=2),
    "an ensemble": dict(models=lambda: [lively(), lively(seed=5)]),
    "fairseq's own model": dict(models=lambda: lively("fairseq_transformer_tiny")),
    "a model without attention to the source": dict(models=lambda: lively(no_cross_attention=True)),
    "attention that is asked for": dict(models=lambda: prepared(lively(), need_attn=True)),
    "retained dropout": dict(models=lambda: prepared(lively(dropout=0.3), retain_dropout=True)),
    "double precision": dict(models=lambda: lively().double()),
    "a language model": dict(lm_model=LanguageModel()),
}


@pytest.mark.parametrize("name", STOCK_WAYS)
def test_other_searches_are_fairseqs_own(name, fast_searches):
    options = dict(STOCK_WAYS[name])
    models = options.pop("models", lively)()
    assert_same(*both(models, batch(), beam_size=4, max_len_b=10, **options), EXACT)
    assert not fast_searches


def with_a_hook(model):
    model.decoder.output_projection.register_forward_hook(lambda module, inputs, output: output * 0.5)


def test_a_model_with_other_features_logits_or_probabilities_is_searched_by_fairseq(fast_searches):
    overridden = ("get_normalized_probs", "decoder.forward", "decoder.extract_features")
    for change in (with_a_hook, *(partial(override, method=method) for method in overridden)):
        model = lively()
        plain = generator(model).generate([model], batch())
        fast_searches.clear()
        change(model)
        actual, expected = both(model, batch(), beam_size=4)
        assert_same(actual, expected, EXACT)
        assert actual[0][0]["score"] != plain[0][0]["score"] and not fast_searches, change


def test_layers_that_a_training_drops_are_fairseqs_own(fast_searches):
    """The copies of the weights would lack these layers, also afterwards."""
    without = dict.fromkeys(("dropout", "attention_dropout", "activation_dropout"), 0.0)
    model = lively(decoder_layerdrop=0.5, **without)
    made = generator(model)
    model.train()
    made.generate([model], batch())
    assert not fast_searches
    assert_same(*both(model.eval(), batch()), CLOSE)
    assert fast_searches
