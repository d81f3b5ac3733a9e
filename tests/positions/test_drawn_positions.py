"""Positions that are drawn in training (``--position-shift``, ``--position-sample``), and those of such models then."""

import itertools

import pytest
import torch

from fairseq_rope.positions import POSITIONS, SideConfig

from ..helpers import ENCODINGS, FP32, KINDS, PAD, build_felt, decoder_input, pad, sentences
from .whole_models import decode_step_by_step, logits, output, texts

POSITIONAL = [name for name in ENCODINGS if name != "none"]
ABSOLUTE = [name for name in ENCODINGS if not POSITIONS[name].shift_invariant]
NONE = dict(dropout=0.0, attention_dropout=0.0, activation_dropout=0.0)


def positions_of(encoding, tokens, **options):
    config = SideConfig(16, 2, 64, PAD, causal=False, **options)
    return POSITIONS[encoding](config, POSITIONS[encoding].Options()).train().positions_of(tokens)


@pytest.mark.parametrize("encoding", POSITIONAL)
def test_a_sample_of_as_many_positions_as_there_are_changes_nothing(encoding):
    """Then the only increasing numbers are the plain ones: tables of distances must give the same logits."""
    for kind, side in itertools.product(KINDS, ("left", "right")):
        source, target = texts(2, 9), decoder_input(sentences(2, 9, seed=2))
        source[0], target[0] = (pad(each[:1, :6], **{side: 3}) for each in (source, target))
        real = (source if kind == "mlm" else target).ne(PAD)
        models = [build_felt(encoding, kind, position_sample=sample, position_gap=1, **NONE) for sample in (0, 9)]
        plain, drawn = (logits(model.train(), source, target) for model in models)
        torch.testing.assert_close(drawn[real], plain[real], **FP32, msg=f"{kind} {side}")


@pytest.mark.parametrize("encoding", POSITIONAL)
def test_samples_are_drawn_in_training_alone_and_again_for_each_batch(encoding):
    model = build_felt(encoding, position_sample=60, position_gap=1, **NONE)
    source, target = sentences(2, 8), decoder_input(sentences(2, 1, seed=2))  # one token: also a single query
    plain = logits(model, source, target)
    torch.manual_seed(3)
    first, second = (output(model.train(), source, target) for _ in range(2))
    torch.manual_seed(3)
    assert torch.equal(output(model, source, target), first)
    assert not torch.allclose(first, second) and not torch.allclose(first, plain)
    first.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert torch.equal(logits(model.eval(), source, target), plain)


@pytest.mark.parametrize("encoding", POSITIONAL)
def test_a_model_translates_with_positions_that_a_training_could_draw(encoding):
    """Neighbours are ``--position-gap`` apart: the logits are those of a sample that happens to be spaced so."""
    model = build_felt(encoding, position_sample=60, position_gap=5, **NONE)
    source, target = sentences(2, 9), decoder_input(sentences(2, 7, seed=2))
    for side in (model.encoder, model.decoder):
        side.position._sampled = lambda tokens: 5 * torch.arange(tokens.size(1))
    drawn = output(model.train(), source, target)
    spaced = logits(model.eval(), source, target)
    torch.testing.assert_close(spaced, drawn, **FP32)
    torch.testing.assert_close(decode_step_by_step(model, source, target)[0], spaced, **FP32)
    assert not torch.allclose(spaced, logits(build_felt(encoding, **NONE), source, target))


def test_a_table_that_the_positions_leave_is_refused_with_the_flag():
    tables = [name for name in ENCODINGS if POSITIONS[name].has_table]
    for encoding, gap in itertools.product(tables, (1, 5)):
        model = build_felt(encoding, max_source_positions=6 * gap, max_target_positions=5 * gap, position_gap=gap)
        assert (model.encoder.max_positions(), model.decoder.max_positions()) == (6, 5)
        logits(model, pad(sentences(1, 6), left=3), decoder_input(sentences(1, 5)))  # padding does not count
        with pytest.raises(ValueError, match=rf"7 tokens .*{6 * gap} positions.*--max-source-positions"):
            logits(model, sentences(1, 7), decoder_input(sentences(1, 5)))
        with pytest.raises(ValueError, match=rf"6 tokens .*{5 * gap} positions.*--max-target-positions"):
            logits(model, sentences(1, 6), decoder_input(sentences(1, 6)))


def test_samples_are_different_positions_in_ascending_order_all_equally_likely():
    tokens, counts = sentences(2, 12), torch.zeros(30)
    for seed in range(400):
        torch.manual_seed(seed)
        found = positions_of("rope", tokens, sample=30)
        row = found.positions[0]
        assert found.below == 30 and (row.diff() > 0).all() and row.min() >= 0 and row.max() < 30
        counts[row] += 1
    assert (counts - 400 * 12 / 30).abs().max() < 50  # five standard deviations


def test_a_shift_is_one_offset_a_sequence_within_the_table():
    tokens = sentences(40, 10)
    for encoding in ABSOLUTE:
        positions = positions_of(encoding, tokens, shift=1000).positions
        assert torch.equal(positions - positions[:, :1], torch.arange(10).expand(40, 10))
        offsets = positions[:, 0]
        assert offsets.unique().numel() > 10 and offsets.max() <= 64 - 10
        assert positions_of(encoding, tokens, shift=3).positions[:, 0].unique().tolist() == [0, 1, 2, 3]


def test_a_model_with_shifts_trains_and_translates_plainly():
    source, target = pad(sentences(3, 8), left=2), decoder_input(sentences(3, 7, seed=2))
    for encoding in ABSOLUTE:
        plain, shifted = build_felt(encoding, **NONE), build_felt(encoding, position_shift=20, **NONE)
        assert torch.equal(logits(shifted, source, target), logits(plain, source, target))
        first, second = (output(shifted.train(), source, target) for _ in range(2))
        assert not torch.allclose(first, second)
        first.sum().backward()
