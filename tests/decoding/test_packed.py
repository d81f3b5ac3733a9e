"""The steps on copies of the decoder's weights: the same numbers up to rounding, never of old weights."""

import copy
import pickle

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator
from torch import nn

from fairseq_rope.architectures import FAMILIES
from fairseq_rope.decoding import products
from fairseq_rope.decoding.packed import PackedDecoder, is_plain
from fairseq_rope.decoding.products import Product, can_pack, largest

from ..helpers import EOS, build, task
from .searching import CLOSE, EXACT, assert_same, batch, both, generator, lively


def translated(model, **options):
    return generator(model, **options).generate([model], batch())


def decoder_of(model):
    """The decoder that a search would use."""
    with torch.no_grad():
        found = generator(model)
        return found.decoder_behind(model.encoder(**batch()["net_input"]))


@pytest.mark.parametrize("rows", [1, 3, 70])
@pytest.mark.parametrize("bias", [True, False])
def test_a_product_is_the_linear_layers_also_of_several_layers(rows, bias, monkeypatch):
    torch.manual_seed(0)
    layers, x = [nn.Linear(24, width, bias=bias) for width in (8, 40, 5)], torch.randn(rows, 24)
    expected = torch.cat([layer(x) for layer in layers], dim=1)
    product = Product.of(*layers)
    assert product.is_packed == can_pack(layers[0].weight)
    torch.testing.assert_close(product(x), expected, **CLOSE)
    monkeypatch.setattr(products, "can_pack", lambda weight: False)
    torch.testing.assert_close(Product.of(*layers)(x), expected, **CLOSE)


def test_a_product_in_bf16_is_that_of_its_numbers():
    torch.manual_seed(0)
    layer, x = nn.Linear(64, 40).bfloat16(), torch.randn(4, 64).bfloat16()
    precise = torch.nn.functional.linear(x.float(), layer.weight.float(), layer.bias.float())
    out = Product.of(layer)(x)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.float(), precise, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("width", [100, 2048, 2050, 2175])
def test_the_largest_are_those_of_topk(width):
    torch.manual_seed(0)
    x = torch.randn(5, width)
    x[1, 7:] = -torch.inf
    x[2, width - 1] = 9
    x[3] = torch.arange(width)
    for count in (1, 4, 9):
        values, columns = largest(x, count)
        expected, places = x.topk(count)
        assert torch.equal(values, expected)
        assert torch.equal(x.gather(1, columns), values)
        finite = expected.isfinite()
        assert torch.equal(columns[finite], places[finite])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("normalize_before", [False, True])
def test_a_step_computes_what_the_modules_do(family, normalize_before):
    model = lively(f"{family}_tiny", decoder_normalize_before=normalize_before, activation_fn="gelu")
    source = batch()["net_input"]
    with torch.no_grad():
        encoder_out = model.encoder(**source)
        fast = generator(model)
        packed = fast.decoder_behind(encoder_out)
        assert isinstance(packed, PackedDecoder)
        fast.packs_weights = False
        modules = fast.decoder_behind(encoder_out)
        assert not isinstance(modules, PackedDecoder)
        tokens = torch.full((5, 1), EOS)
        order = torch.arange(5).repeat_interleave(2)
        for step in range(6):
            rows = [decoder.features(tokens) for decoder in (packed, modules)]
            torch.testing.assert_close(*rows, **CLOSE)
            if step == 0:  # two beams for each sentence from here on
                tokens = tokens[order]
                for decoder in (packed, modules):
                    decoder.reorder(order)
            if step == 3:  # sentences 0 and 3 stay, and their beams change places
                kept, chosen = torch.tensor([0, 3]), torch.tensor([1, 0, 7, 6])
                tokens = tokens[chosen]
                for decoder in (packed, modules):
                    decoder.keep(kept)
                    decoder.reorder(chosen)
            tokens = torch.cat([tokens, 4 + (tokens[:, -1:] * 7 + torch.arange(len(tokens))[:, None]) % 20], dim=1)


def test_fairseqs_rounding_is_an_option():
    model = lively()
    found = generator(model)
    found.packs_weights = False
    stock = SequenceGenerator([model], task().target_dictionary, beam_size=3, max_len_b=12)
    assert_same(found.generate([model], batch()), stock.generate([model], batch()), CLOSE)
    assert model.decoder.decoding_copies is None


CHANGES = {
    "in place": lambda weight: weight.mul_(1.5),
    "through data": lambda weight: weight.data.mul_(1.5),
    "replaced": lambda weight: setattr(weight, "data", weight.data * 1.5),
}


@pytest.mark.parametrize(
    "part", ["layers.0.fc1.weight", "layers.1.encoder_attn.v_proj.weight", "output_projection.weight"]
)
@pytest.mark.parametrize("change", CHANGES)
def test_changed_weights_are_copied_again(part, change):
    model = lively()
    before = translated(model)
    copies = model.decoder.decoding_copies
    assert copies is not None and translated(model) and model.decoder.decoding_copies is copies
    with torch.no_grad():
        CHANGES[change](model.decoder.get_parameter(part))
    after, expected = both(model, batch(), beam_size=3, max_len_b=12)
    assert_same(after, expected)
    assert [h["score"] for h in after[0]] != [h["score"] for h in before[0]]


def test_loaded_weights_and_a_replaced_parameter_are_copied_again():
    model, other = lively(), lively(seed=5)
    translated(model)
    model.load_state_dict(other.state_dict())
    assert_same(translated(model), translated(other), EXACT)
    model.decoder.layers[0].fc2 = copy.deepcopy(lively(seed=6).decoder.layers[0].fc2)
    assert_same(*both(model, batch(), beam_size=3, max_len_b=12))


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


def test_under_autocast_the_modules_serve():
    """Their products have the precision of autocast; copies have that of the weights."""
    model = lively()
    in_fp32 = translated(model)
    with torch.autocast("cpu", torch.bfloat16):
        assert type(decoder_of(model)) is not PackedDecoder
        found, of_modules = (both(model, batch(), beam_size=3, max_len_b=12, packs=packs)[0] for packs in (True, False))
    assert_same(found, of_modules, EXACT)
    assert [beams[0]["score"] for beams in found] != [beams[0]["score"] for beams in in_fp32]


def test_hypotheses_serve_in_a_training():
    model = lively()
    (best, *_), *_ = translated(model)
    best["tokens"] += 0
    model.train()
    model.decoder.embed_tokens(best["tokens"]).sum().backward()


def test_who_listens_to_a_module_hears_every_step():
    model, heard = lively(), []
    model.decoder.layers[1].fc1.register_forward_hook(lambda *_: heard.append(1))
    translated(model)
    assert not is_plain(model.decoder) and len(heard) > 5


@pytest.mark.parametrize("option", ["scale_attn", "scale_heads", "scale_fc", "scale_resids"])
def test_options_that_change_a_layer_take_its_modules(option):
    model = build("roformer_tiny", **{option: True})
    assert not is_plain(model.decoder)
    assert type(decoder_of(model)) is not PackedDecoder


def test_replaced_layers_take_the_modules():
    class Adapted(nn.Linear):
        pass

    model = lively()
    model.decoder.layers[0].fc1.__class__ = Adapted
    assert not is_plain(model.decoder)
