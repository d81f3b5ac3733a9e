"""The steps on copies of the decoder's weights: the same numbers up to rounding, never of old weights."""

import copy
import itertools
import pickle

import pytest
import torch
from torch import nn

from fairseq_rope.decoding.beams import largest
from fairseq_rope.decoding.packed import is_plain

from ..helpers import override
from .searching import EXACT, SEARCH, assert_same, batch, both, generator, lively


def translated(model, **options):
    return generator(model, **options).generate([model], batch())


def test_the_largest_are_those_of_topk():
    torch.manual_seed(0)
    for width, count in itertools.product((2048, 2050, 2175), (1, 4, 8)):
        x = torch.randn(5, width)
        x[1, 7:] = -torch.inf
        x[2, width - 1] = 9
        x[3] = torch.arange(width)
        values, columns = largest(x, count)
        expected, places = x.topk(count)
        assert torch.equal(values, expected) and torch.equal(x.gather(1, columns), values)
        finite = expected.isfinite()
        assert torch.equal(columns[finite], places[finite])


CHANGES = {
    "one number in place": lambda weight: weight.view(-1)[1].add_(5),  # not one of those that are compared
    "through data": lambda weight: weight.data.mul_(1.5),
    "replaced": lambda weight: setattr(weight, "data", weight.data * 1.5),
}


def test_changed_and_loaded_weights_are_copied_again():
    for change in CHANGES.values():
        model = lively()
        before = translated(model)
        copies = model.decoder.decoding_copies
        assert copies is not None and translated(model) and model.decoder.decoding_copies is copies
        for part in ("layers.0.fc1.weight", "layers.1.encoder_attn.v_proj.weight", "output_projection.weight"):
            with torch.no_grad():
                change(model.decoder.get_parameter(part))
            after, expected = both(model, batch(), **SEARCH)
            assert_same(after, expected)
            assert [h["score"] for h in after[0]] != [h["score"] for h in before[0]]
            before = after
    other = lively(seed=5)
    model.load_state_dict(other.state_dict())
    assert_same(translated(model), translated(other), EXACT)


def test_a_training_drops_the_copies_and_a_copy_of_the_model_has_none():
    model = lively()
    translated(model)
    assert model.decoder.decoding_copies is not None
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.decoder.decoding_copies is None
        assert_same(translated(other), translated(model), EXACT)
    assert not any("copies" in name for name in model.state_dict())
    model.train()
    assert model.decoder.decoding_copies is None


def test_who_listens_to_a_module_hears_every_step():
    model, heard = lively(), []
    model.decoder.layers[1].fc1.register_forward_hook(lambda *_: heard.append(1))
    translated(model)
    assert not is_plain(model.decoder) and len(heard) > 5


METHODS = ("forward", "residual_connection", "fc2.forward")
METHODS += tuple(f"{part}.{method}" for part in ("self_attn", "encoder_attn") for method in ("forward", "attend"))


@pytest.mark.parametrize("name", METHODS)
def test_a_method_that_a_user_has_replaced_is_called(name):
    model = lively()
    part, _, method = name.rpartition(".")
    module = model.decoder.layers[1].get_submodule(part)
    stock = getattr(module, method)

    def tripled(*args, **kwargs):
        output = stock(*args, **kwargs)
        return (3 * output[0], *output[1:]) if isinstance(output, tuple) else 3 * output

    setattr(module, method, tripled)
    assert not is_plain(model.decoder)
    assert_same(*both([model], batch()))


def test_an_attention_of_a_subclass_is_called():
    model = lively()
    override(model, "decoder.layers.1.self_attn.forward")
    assert_same(*both([model], batch()))


def test_autocast_options_that_change_a_layer_and_replaced_layers_take_the_modules():
    """Under autocast, products have its precision; copies have that of the weights."""
    models = [lively(**{f"scale_{part}": True}) for part in ("attn", "heads", "fc", "resids")]
    models.append(lively())
    models[-1].decoder.layers[0].fc1.__class__ = type("Adapted", (nn.Linear,), {})
    for model in models:
        translated(model)
        assert not is_plain(model.decoder) and model.decoder.decoding_copies is None
    with torch.autocast("cpu", torch.bfloat16):
        found, of_modules = (both(lively(), batch(), packs=packs, **SEARCH)[0] for packs in (True, False))
    assert_same(found, of_modules, EXACT)
    assert [beams[0]["score"] for beams in found] != [beams[0]["score"] for beams in translated(lively())]
