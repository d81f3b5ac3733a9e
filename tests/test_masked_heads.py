"""The heads of masked models: whose weights they have, and what separates the sentences that they classify."""

import argparse

import pytest
import torch

from fairseq_rope.masked_hub import MaskedHub
from fairseq_rope.masked_lm import INITIAL_STD

from .helpers import build


def test_a_head_of_its_own_starts_with_berts_values():
    weight = build("roformer_mlm_tiny", untie_weights_roberta=True, encoder_embed_dim=128).encoder.lm_head.weight
    assert weight.std().item() == pytest.approx(INITIAL_STD, rel=0.05)


def test_a_tied_head_takes_no_parameters_of_another_one():
    tied, untied = (build("roformer_mlm_tiny", untie_weights_roberta=untie) for untie in (False, True))
    with pytest.raises(ValueError, match="a model with a head of its own: give --untie-weights-roberta"):
        tied.load_state_dict(untied.state_dict())
    untied.load_state_dict(tied.state_dict())
    assert torch.equal(untied.encoder.lm_head.weight, tied.encoder.sentence_encoder.embed_tokens.weight)
    tied.load_state_dict(untied.state_dict())


def test_a_head_that_fairseq_cannot_load_is_refused():
    with pytest.raises(ValueError, match="--spectral-norm-classification-head is not supported here"):
        build("roformer_mlm_tiny", spectral_norm_classification_head=True)


@pytest.mark.parametrize("place", ["cfg", "args"])
@pytest.mark.parametrize("options,separators", [({"separator_token": 2}, 3), ({"separator_token": None}, 2), ({}, 3)])
def test_sentences_are_separated_as_in_the_fine_tuning(place, options, separators):
    model = build("roformer_mlm_tiny")
    task = argparse.Namespace(source_dictionary=model.encoder.dictionary, dictionary=model.encoder.dictionary)
    setattr(task, place, argparse.Namespace(**options))  # fairseq's older tasks have args
    words = type("Words", (), dict(encode=str, decode=str))()
    hub = MaskedHub(argparse.Namespace(tokenizer=None, bpe=None), task, model)
    hub.bpe = words
    assert hub.encode("w5 w6", "w7").tolist().count(model.encoder.dictionary.eos()) == separators
