"""What every registered encoding must keep, in a whole model. The registry decides what is tested."""

import copy
import io
import itertools

import pytest
import torch

from ..helpers import ENCODINGS, FP32, KINDS, PAD, build_felt, build_with, decoder_input, pad, sentences
from .whole_models import decode_step_by_step, logits, texts

pytestmark = pytest.mark.parametrize("encoding", ENCODINGS)


def test_the_full_pass_equals_step_by_step_after_beam_reordering(encoding):
    order = torch.tensor([1, 1, 3, 2])  # within each beam of two: one hypothesis doubled, two exchanged
    source = pad(sentences(2, 6), left=2).repeat_interleave(2, dim=0)
    target = decoder_input(sentences(4, 9, seed=2))
    target[2] = pad(target[2:3, :6], left=3)[0]
    other = ENCODINGS[ENCODINGS.index(encoding) - 1]  # each meets another one
    for model in (build_felt(encoding, decoder_position=other), build_felt(encoding, "lm")):
        steps, reordered = decode_step_by_step(model, source, target, reorder=(5, order))
        real = reordered.ne(PAD)
        torch.testing.assert_close(steps[real], logits(model, source[order], reordered)[real], **FP32)


@pytest.mark.parametrize("kind", ["hook", "method"])
def test_what_a_user_puts_into_a_linear_layer_is_felt_in_the_full_pass_and_in_steps(encoding, kind):
    model, target = build_felt(encoding, "lm", share_decoder_input_output_embed=False), texts(2, 9)
    larger = copy.deepcopy(model)
    for layer, scaled in zip(model.decoder.modules(), larger.decoder.modules()):
        if type(layer) is torch.nn.Linear:
            for parameter in scaled.parameters():
                parameter.data.mul_(1.2)
            if kind == "hook":
                layer.register_forward_hook(lambda _, __, output: 1.2 * output)
            else:
                layer.forward = lambda x, stock=layer.forward: 1.2 * stock(x)
    expected = logits(larger, None, target)
    torch.testing.assert_close(logits(model, None, target), expected, **FP32)
    torch.testing.assert_close(decode_step_by_step(model, None, target)[0], expected, **FP32)


def test_a_sentence_alone_equals_itself_in_a_padded_batch(encoding):
    places = {"left": slice(-5, None), "right": slice(5)}
    for kind in KINDS:
        model, (source, long_source) = build_felt(encoding, kind), (texts(1, 5), texts(1, 11, seed=4))
        target, long_target = decoder_input(sentences(1, 5, seed=5)), decoder_input(sentences(1, 9, seed=6))
        if kind == "lm":
            target, long_target = source, long_source
        alone = logits(model, source, target)
        for side, target_side in itertools.product(places, places):
            batch_source = torch.cat([pad(source, **{side: 6}), long_source])
            batch_target = torch.cat([pad(target, **{target_side: long_target.size(1) - 5}), long_target])
            together = logits(model, batch_source, batch_target)
            real = places[side if kind == "mlm" else target_side]
            torch.testing.assert_close(together[:1, real], alone, **FP32, msg=kind)
            assert together.isfinite().all()


def test_swapping_two_tokens_changes_the_output_after_save_load_and_eval(encoding):
    source, target = texts(1, 8), decoder_input(sentences(1, 5, seed=2))
    swapped = source[:, [0, 3, 2, 1, *range(4, 8)]]
    assert not torch.equal(source, swapped)
    for kind in KINDS:
        saved = io.BytesIO()
        torch.save(build_felt(encoding, kind, seed=1).state_dict(), saved)
        saved.seek(0)
        model = build_felt(encoding, kind, seed=2)
        model.load_state_dict(torch.load(saved, weights_only=True))
        model.eval()
        targets = (target, target) if kind == "translation" else (source, swapped)
        before, after = map(logits, (model, model), (source, swapped), targets)
        change = (before - after)[:, -1].abs().max()  # behind the last token, which stays
        if encoding == "none" and kind != "lm":  # the control: its encoder sees a bag of words
            assert change < 1e-5, kind
        else:  # without an encoding, what a causal model sees of earlier tokens still depends on their order
            assert change > 1e-3, kind


def test_a_model_that_was_built_on_the_meta_device_computes_what_was_loaded(encoding):
    model = build_felt(encoding)
    with torch.device("meta"):
        loaded = build_with(encoding, seed=1)
    loaded.to_empty(device="cpu").load_state_dict(model.state_dict())
    source, target = sentences(2, 9), decoder_input(sentences(2, 7, seed=2))
    assert torch.equal(logits(loaded, source, target), logits(model, source, target))


def test_a_copied_or_pickled_model_shares_nothing_with_the_first(encoding):
    """Layers refer to an encoding, and encodings to projections, that are registered elsewhere."""
    options = dict(deberta_share_projections=True) if encoding == "deberta" else {}
    model, source, target = build_felt(encoding, **options), sentences(2, 6), decoder_input(sentences(2, 5))
    expected, file = logits(model, source, target), io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    others = copy.deepcopy(model), torch.load(file, weights_only=False)
    for parameter in model.parameters():
        parameter.data.fill_(torch.nan)
    for other in others:
        assert torch.equal(logits(other, source, target), expected)
        assert other.state_dict().keys() == model.state_dict().keys()
