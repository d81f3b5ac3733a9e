"""Modules that many layers share are registered once, and a copied or pickled model refers to its own."""

import copy
import io
import multiprocessing

import pytest
import torch
from torch import nn

from fairseq_rope.unregistered import Unregistered

from .helpers import ENCODINGS, build_with, decoder_input, sentences


class Owner(nn.Module):
    """Holds a module before ``nn.Module.__init__``, and registers another."""

    def __init__(self, shared):
        self.shared = Unregistered(shared)
        super().__init__()
        self.own = nn.Linear(2, 2)


def logits(model):
    with torch.no_grad():
        return model(sentences(2, 6), None, decoder_input(sentences(2, 5)))[0]


def assert_refers_to_itself(model):
    """Every layer's encoding, and every projection that an encoding borrows, is a part of ``model``."""
    for stack in (model.encoder, model.decoder):
        for layer in stack.layers:
            assert layer.self_attn.encoding is stack.position
            borrowed = getattr(layer.self_attn.position, "k_proj", layer.self_attn.k_proj)
            assert any(borrowed is module for module in layer.self_attn.modules())


def pickled(model):
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def test_a_module_in_a_holder_is_not_a_child():
    shared = nn.Linear(3, 3)
    owner = Owner(shared)
    assert owner.shared.module is shared
    assert list(owner.state_dict()) == ["own.weight", "own.bias"]
    assert [module for module in owner.modules() if module is shared] == []


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickled])
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_copy_of_a_model_has_layers_that_point_at_its_own_encoding(encoding, duplicate):
    model = build_with(encoding)
    other = duplicate(model)
    assert_refers_to_itself(model)
    assert_refers_to_itself(other)
    assert not {id(module) for module in model.modules()} & {id(module) for module in other.modules()}
    assert other.state_dict().keys() == model.state_dict().keys()
    expected = logits(model)
    assert torch.equal(logits(other), expected)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.fill_(float("nan"))
    assert torch.equal(logits(model), expected)


def test_a_copy_borrows_the_projections_of_its_own_content():
    model = build_with("deberta", deberta_share_projections=True)
    for duplicate in (copy.deepcopy, pickled):
        assert_refers_to_itself(duplicate(model))


def test_a_model_that_is_sent_to_another_process_refers_to_itself_there():
    model = build_with("t5")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        pool.apply(assert_refers_to_itself, (model,))
        assert torch.equal(pool.apply(logits, (model,)), logits(model))
