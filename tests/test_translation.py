"""The model as fairseq users see it: stock equivalence, flags, options that are refused, command line."""

import copy
import dataclasses
import re
from pathlib import Path

import pytest
import torch

from fairseq_rope.architectures import ARCHITECTURES, FAMILIES, SIZES, match_architectures
from fairseq_rope.info import VOCABULARY, count_parameters, options
from fairseq_rope.layers import FAST_PATH_COPIES
from fairseq_rope.positions import POSITIONS

from .helpers import ENCODINGS, FP32, KINDS, build, build_felt, build_with, decoder_input, pad, sentences


def without_stock_extras(state):
    """A stock state dict without what fairseq 0.12.2 keeps besides the parameters."""
    return {
        name: value
        for name, value in state.items()
        if not name.endswith("_float_tensor") and name.split(".")[-1] not in FAST_PATH_COPIES
    }


@pytest.mark.parametrize("share", [True, False])
def test_sinusoidal_equals_fairseqs_own_transformer_with_the_same_weights(share):
    stock = build("fairseq_transformer_tiny", share_all_embeddings=share)
    ours = build("transformer_sinusoidal_tiny", seed=1, share_all_embeddings=share)
    ours.load_state_dict(without_stock_extras(stock.state_dict()))
    source, target = pad(sentences(3, 8), left=3), pad(decoder_input(sentences(3, 7, seed=2)), right=2)
    with torch.no_grad():
        actual, expected = ours(source, None, target)[0], stock(source, None, target)[0]
    torch.testing.assert_close(actual[:, :7], expected[:, :7], **FP32)


def test_a_state_dict_with_the_fast_paths_copies_loads():
    model = build_with("rope")
    state = model.state_dict()
    for name in FAST_PATH_COPIES:
        state[f"encoder.layers.0.{name}"] = torch.zeros(1)
    build_with("rope", seed=1).load_state_dict(state)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_decoders_own_methods_reorder_beams_and_keep_sentences(encoding):
    """A row of the cached decoder computes what a full pass over that row's tokens and sentence does."""
    model = build_felt(encoding)
    source, target = sentences(3, 6), decoder_input(sentences(8, 4, seed=2))
    owner = torch.arange(3)  # each row's sentence
    state = {}
    with torch.no_grad():
        encoder_out, tokens = model.encoder(source), target[:3, :1]
        for step, (order, kept) in enumerate([([0, 0, 1, 1, 2, 2], None), ([1, 0, 4, 4], [0, 2]), ([2, 3], [1])]):
            model.decoder(tokens, encoder_out, state)
            order = torch.tensor(order)
            if kept is not None:
                model.decoder.keep_sentences(state, torch.tensor(kept))
            model.decoder.reorder_beams(state, order)
            owner = owner[order]
            tokens = torch.cat([tokens[order], target[: len(order), step + 1, None]], dim=1)
            cached = model.decoder(tokens, encoder_out, copy.deepcopy(state))[0][:, -1]
            full = model.decoder(tokens, model.encoder(source[owner]))[0][:, -1]
            torch.testing.assert_close(cached, full, **FP32)


def test_each_side_has_its_own_encoding():
    model = build_with("rope", decoder_position="learned")
    assert isinstance(model.encoder.position, POSITIONS["rope"])
    assert isinstance(model.decoder.position, POSITIONS["learned"])


def test_every_family_is_registered_at_every_size():
    sizes = {"": SIZES, "mlm_": ("base", "small", "tiny"), "lm_": ("base", "enwik8", "small", "tiny")}
    names = {f"{kind}{size}" for kind, sizes in sizes.items() for size in sizes}
    assert set(ARCHITECTURES) == {f"{family}_{name}" for family in FAMILIES for name in names}


@pytest.mark.parametrize("kind", KINDS)
def test_two_architectures_of_one_size_differ_in_the_position_term_alone(kind):
    names = match_architectures(["*_tiny" if kind == "translation" else f"*_{kind}_tiny"])
    states = {name: build(name).state_dict() for name in names}
    assert len(states) == len(FAMILIES)
    common = states[next(name for name in names if name.startswith("transformer_none_"))].keys()
    for state in states.values():
        assert {name for name in state if ".position." not in name} == set(common)


@pytest.mark.parametrize(
    "options,message",
    [
        (dict(encoder_learned_pos=True), "--encoder-learned-pos is not supported here: choose `learned`"),
        (dict(cross_self_attention=True), "--cross-self-attention is not supported here"),
        (dict(decoder_xformers_att_config="{}"), "--decoder-xformers-att-config is not supported here"),
        (
            dict(encoder_position="none", decoder_position="none", rope_base=3.0),
            "--rope-base belongs to the encoding rope",
        ),
        (dict(encoder_position="rotten"), "--encoder-position must be one of .*, not 'rotten'"),
        (dict(encoder_attention_heads=5), "--encoder-embed-dim 32 must be divisible by --encoder-attention-heads 5"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        build("roformer_tiny", **options)


@pytest.mark.slow
def test_the_parameters_of_the_base_size_are_those_of_the_papers():
    # Vaswani et al. 2017 state 65M for the base model; 37k x 512 + 44.1M in the layers
    assert count_parameters("roformer_base", VOCABULARY) == 63_082_496
    assert count_parameters("transformer_learned_base", VOCABULARY) == 63_082_496 + 2 * 1024 * 512


def test_the_manual_states_what_each_encoding_adds():
    page = Path(__file__).parent.parent / "docs/encodings.md"
    rows = [line.split("|")[1:-1] for line in page.read_text(encoding="utf-8").splitlines()]
    table = {cells[0].strip(" `"): [c.strip() for c in cells[1:]] for cells in rows if len(cells) == 6}
    plain = count_parameters("transformer_none_base", VOCABULARY)
    for family, name in FAMILIES.items():
        added, invariant = table[name][:2]
        assert added == f"{count_parameters(f'{family}_base', VOCABULARY) - plain:,}", name
        assert invariant == ("yes" if POSITIONS[name].shift_invariant else "no"), name


def test_every_flag_is_listed_with_its_default():
    listed = options()
    words = " ".join(listed.split())
    for name, encoding in POSITIONS.items():
        assert f"\n{name}: " in f"\n{listed}"
        for field in dataclasses.fields(encoding.Options):
            assert f"--{encoding.prefix}-{field.name}".replace("_", "-") in listed
            assert field.metadata["help"] in words
            assert isinstance(field.default, bool) or f"{field.metadata['help']} (default: {field.default})" in words


@pytest.mark.parametrize("part", ["", "encoder", "decoder.layers.0.self_attn"])
def test_torchscript_is_refused_in_words(part):
    with pytest.raises(ValueError, match=r"TorchScript cannot compile position encodings, .* use torch\.export"):
        torch.jit.script(build("roformer_tiny").get_submodule(part))


@pytest.mark.slow
def test_the_manuals_export_of_encoder_and_decoder_serves_other_batches():
    page = (Path(__file__).parent.parent / "docs/export.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(import torch\n.*?)```", page, re.DOTALL)
    model = build("roformer_tiny", encoder_layers=1, decoder_layers=1, decoder_position="tupe_r")
    names = dict(model=model, source=pad(sentences(3, 8), left=2), prefix=decoder_input(sentences(3, 5, seed=2)))
    with torch.no_grad():
        exec(code, names)
        source, prefix = pad(sentences(2, 11), left=3), decoder_input(sentences(2, 7, seed=2))
        logits, _ = names["decoder"].module()(prefix, names["encoder"].module()(source))
        torch.testing.assert_close(logits, model(source, None, prefix)[0], **FP32)
