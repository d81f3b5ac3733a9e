"""The heads of masked models: whose weights they have, and what separates the sentences that they classify."""

import argparse

import pytest
import torch

from fairseq_rope.masked_hub import MaskedHub

from .helpers import build


def test_a_tied_head_takes_no_parameters_of_another_one():
    tied, untied = (build("roformer_mlm_tiny", untie_weights_roberta=untie) for untie in (False, True))
    with pytest.raises(ValueError, match="--untie-weights-roberta"):
        tied.load_state_dict(untied.state_dict())
    untied.load_state_dict(tied.state_dict())
    assert torch.equal(untied.encoder.lm_head.weight, tied.encoder.sentence_encoder.embed_tokens.weight)
    tied.load_state_dict(untied.state_dict())


def hub_of(model, **config):
    task = argparse.Namespace(source_dictionary=model.encoder.dictionary, dictionary=model.encoder.dictionary, **config)
    hub = MaskedHub(argparse.Namespace(tokenizer=None, bpe=None), task, model)
    hub.bpe = argparse.Namespace(encode=str, decode=str)  # splits at spaces
    return hub


def test_sentences_are_separated_as_in_the_fine_tuning():
    model = build("roformer_mlm_tiny")
    for options, separators in (({"separator_token": 2}, 3), ({"separator_token": None}, 2), ({}, 3)):
        for place in ("cfg", "args"):  # fairseq's older tasks have args
            tokens = hub_of(model, **{place: argparse.Namespace(**options)}).encode("w5 w6", "w7").tolist()
            assert tokens.count(model.encoder.dictionary.eos()) == separators


@pytest.mark.parametrize("training", [False, True])
def test_a_masked_word_is_filled_in_without_dropout_and_the_mode_stays(training):
    model = build("roformer_mlm_tiny", dropout=0.5).train(training)
    hub = hub_of(model)
    assert hub.fill_mask("w5 <mask> w7") == hub.fill_mask("w5 <mask> w7")
    assert all(module.training == training for module in model.modules())
