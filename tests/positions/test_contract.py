"""What every registered encoding must keep, in a whole model. The registry decides what is tested."""

import io

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_rope.checkpoints.average import average_checkpoints
from fairseq_rope.positions import POSITIONS

from ..helpers import ENCODINGS, FP32, KINDS, LANGUAGE, PAD, build_felt, build_with, decoder_input, pad, sentences, task
from .whole_models import decode_step_by_step, logits, texts

pytestmark = pytest.mark.parametrize("encoding", ENCODINGS)


@pytest.mark.parametrize("other", ENCODINGS)
def test_the_full_pass_equals_step_by_step_with_every_encoding_in_the_decoder(encoding, other):
    model = build_felt(encoding, decoder_position=other)
    source, target = pad(sentences(3, 6), left=2), decoder_input(sentences(3, 9, seed=2))
    steps, _ = decode_step_by_step(model, source, target)
    torch.testing.assert_close(steps, logits(model, source, target), **FP32)


def test_the_full_pass_of_a_causal_model_equals_step_by_step(encoding):
    model, text = build_felt(encoding, "lm"), decoder_input(sentences(3, 9))
    steps, _ = decode_step_by_step(model, None, text)
    torch.testing.assert_close(steps, logits(model, None, text), **FP32)


@pytest.mark.parametrize("kind", ["translation", "lm"])
def test_the_full_pass_equals_step_by_step_after_beam_reordering(encoding, kind):
    model = build_felt(encoding, kind)
    source, target = sentences(2, 6).repeat_interleave(2, dim=0), decoder_input(sentences(4, 9, seed=2))
    order = torch.tensor([1, 1, 3, 2])  # within each beam of two: one hypothesis doubled, two exchanged
    steps, reordered = decode_step_by_step(model, source, target, reorder=(5, order))
    torch.testing.assert_close(steps, logits(model, source[order], reordered), **FP32)


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_sentence_alone_equals_itself_in_a_padded_batch(encoding, side):
    model = build_felt(encoding)
    short, long = sentences(1, 5), sentences(1, 11, seed=4)
    target, long_target = decoder_input(sentences(1, 4, seed=5)), decoder_input(sentences(1, 9, seed=6))
    alone = logits(model, short, target)
    batch_source = torch.cat([pad(short, **{side: 6}), long])
    for target_side in ("right", "left"):
        batch_target = torch.cat([pad(target, **{target_side: 5}), long_target])
        together = logits(model, batch_source, batch_target)
        real = slice(0, 4) if target_side == "right" else slice(5, 9)
        torch.testing.assert_close(together[:1, real], alone, **FP32)
        assert together.isfinite().all()


@pytest.mark.parametrize("kind", LANGUAGE)
def test_a_text_alone_equals_itself_in_a_padded_batch(encoding, kind):
    model, short, long = build_felt(encoding, kind), texts(1, 5), texts(1, 11, seed=4)
    alone = logits(model, short, short)
    for side, real in (("left", slice(6, 11)), ("right", slice(0, 5))):
        batch = torch.cat([pad(short, **{side: 6}), long])
        together = logits(model, batch, batch)
        torch.testing.assert_close(together[:1, real], alone, **FP32)
        assert together.isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_swapping_two_tokens_changes_the_output_after_save_load_and_eval(encoding, kind):
    saved = io.BytesIO()
    torch.save(build_felt(encoding, kind, seed=1).state_dict(), saved)
    saved.seek(0)
    model = build_felt(encoding, kind, seed=2)
    model.load_state_dict(torch.load(saved, weights_only=True))
    model.eval()
    source, target = texts(1, 8), decoder_input(sentences(1, 5, seed=2))
    swapped = source[:, [0, 3, 2, 1, *range(4, 8)]]
    assert not torch.equal(source, swapped)
    if kind != "translation":
        target = source
    after = logits(model, swapped, target if kind == "translation" else swapped)
    change = (logits(model, source, target) - after)[:, -1].abs().max()  # behind the last token, which stays
    if encoding == "none" and kind != "lm":  # the control: its encoder sees a bag of words
        assert change < 1e-5
    else:  # without an encoding, what a causal model sees of earlier tokens still depends on their order
        assert change > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_the_output_shifts_with_the_sentence_only_if_it_says_so(encoding, kind):
    model, tokens = build_felt(encoding, kind), texts(1, 6)
    stack = {"translation": "encoder", "mlm": "encoder.sentence_encoder", "lm": "decoder"}[kind]
    stack = model.get_submodule(stack)
    places = stack.position.steps(tokens)
    with torch.no_grad():

        def run(offset):
            moved = places._replace(positions=places.positions + offset)
            context = stack.position.prepare(moved, moved)
            if kind == "lm":
                x = stack.embed(tokens, moved.positions).transpose(0, 1)
            else:
                x = stack.forward_embedding(tokens, positions=moved.positions)[0].transpose(0, 1)
            for layer in stack.layers:
                x = layer(x, causal=True, **context)[0] if kind == "lm" else layer(x, None, **context)
            return x

        change = (run(0) - run(17)).abs().max()
    assert (change < 1e-4) == POSITIONS[encoding].shift_invariant


@pytest.mark.parametrize("kind", KINDS)
def test_the_state_dict_holds_parameters_and_no_derived_table(encoding, kind):
    model = build_felt(encoding, kind)
    parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
    assert {name.split(".")[-1] for name in set(model.state_dict()) - parameters} == {"version"}


def test_an_averaged_checkpoint_loads_and_computes_with_the_mean(encoding, tmp_path):
    models, config = [build_felt(encoding, seed=seed) for seed in (1, 2)], {"cfg": {}}
    for i, model in enumerate(models):
        torch.save({"model": model.state_dict(), **config}, tmp_path / f"{i}.pt")
    average = build_felt(encoding, seed=3)
    average.load_state_dict(average_checkpoints([tmp_path / "0.pt", tmp_path / "1.pt"])["model"])
    for name, parameter in average.named_parameters():
        mean = sum(dict(model.named_parameters())[name] for model in models) / 2
        torch.testing.assert_close(parameter, mean, msg=name)
    assert logits(average, sentences(2, 7), decoder_input(sentences(2, 5)))[0].isfinite().all()


def test_beam_search_is_not_disturbed_by_padding_on_the_left(encoding):
    model = build_felt(encoding)
    generator = SequenceGenerator([model], task().target_dictionary, beam_size=4, max_len_b=12)
    short, long = sentences(1, 4), sentences(1, 9, seed=3)

    def best(source):
        net_input = {"src_tokens": source, "src_lengths": source.ne(PAD).sum(dim=1)}
        hypotheses = generator.generate([model], {"net_input": net_input})
        return [h[0]["tokens"].tolist() for h in hypotheses]

    assert best(torch.cat([pad(short, left=5), long])) == best(short) + best(long)


def test_no_attention_weights_unless_asked_for(encoding):
    model = build_felt(encoding)
    source, target = sentences(2, 6), decoder_input(sentences(2, 5, seed=2))
    with torch.no_grad():
        assert model(source, None, target)[1]["attn"] == [None]
        asked = model(source, None, target, alignment_layer=1)[1]["attn"][0]
    assert asked.shape == (2, 5, 6)
    torch.testing.assert_close(asked.sum(-1), torch.ones(2, 5))


def test_a_model_that_was_built_on_the_meta_device_computes_what_was_loaded(encoding):
    model = build_felt(encoding)
    with torch.device("meta"):
        loaded = build_with(encoding, seed=1)
    loaded.to_empty(device="cpu").load_state_dict(model.state_dict())
    source, target = sentences(2, 9), decoder_input(sentences(2, 7, seed=2))
    assert torch.equal(logits(loaded, source, target), logits(model, source, target))


def test_a_quantised_model_decodes(encoding):
    model = build_felt(encoding)
    quantised = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    source, target = sentences(2, 9), decoder_input(sentences(2, 7, seed=2))
    expected, actual = (decode_step_by_step(net, source, target)[0] for net in (model, quantised))
    assert (actual - expected).abs().max() < 0.1 * expected.abs().max()  # eight bits, through a few layers
