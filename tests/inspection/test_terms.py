"""What positions contribute: the numbers against their formulas."""

import cmath
import copy

import pytest
import torch

from fairseq_rope.inspection.terms import by_distance, draw_sentences, long_term_decay, position_bias, tupe_correlations
from fairseq_rope.positions.alibi import slopes

from ..helpers import SOFTMAX, VOCABULARY, build_felt, build_with, same, task

DISTANCE = torch.arange(9) - torch.arange(9)[:, None]  # j - i, (9, 9)
EARLIER = DISTANCE <= 0


def centred(bias, seen):
    """``bias`` without the mean of each row over the keys that are seen, nan for the others."""
    bias = bias.double().masked_fill(~seen, float("nan"))
    return bias - bias.nanmean(-1, keepdim=True)


def without_content(model):
    """The same model, with queries and keys of 0: only what an encoding adds to the logits is left."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "self_attn.q_proj" in name or "self_attn.k_proj" in name:
                parameter.zero_()
    return model


def close(actual, expected):
    torch.testing.assert_close(actual, expected.to(actual.dtype), equal_nan=True, rtol=1e-5, atol=1e-5)


def test_the_decay_is_the_mean_of_the_partial_sums():
    for pairs, base in ((1, 10000.0), (4, 100.0), (32, 10000.0)):
        terms = [[cmath.exp(1j * r * base ** (-n / pairs)) for n in range(pairs)] for r in range(41)]
        expected = [sum(abs(sum(row[:m])) for m in range(1, pairs + 1)) / pairs for row in terms]
        decay = long_term_decay(2 * pairs, base, 40)
        torch.testing.assert_close(decay, torch.tensor(expected, dtype=torch.double), rtol=0, atol=1e-5)
        assert decay[0] == (pairs + 1) / 2  # the mean of 1, ..., d/2


@pytest.mark.parametrize(
    "kind, side, begins, place",
    [
        ("translation", "encoder", False, 8),
        ("translation", "decoder", False, 0),
        ("mlm", "encoder", False, 0),
        ("lm", "decoder", False, None),
        ("lm", "decoder", True, 0),
    ],
)
def test_the_special_symbol_stands_where_the_texts_of_a_side_have_it(kind, side, begins, place):
    """Its column is the same for all queries, and no other one is."""
    model = build_felt("tupe_a", kind)
    if kind == "lm":
        assert not model.begins_with_symbol
        model.begins_with_symbol = begins
    maps = tupe_correlations(model, side, 9)
    seen = EARLIER if side == "decoder" else EARLIER | True
    assert torch.equal(maps.isfinite(), seen.expand(4, -1, -1))
    for j in range(7 if side == "decoder" else 9):
        others = [i for i in range(9) if i != j and seen[i, j]]
        is_constant = (maps[:, others, j] == maps[:, others[:1], j]).all()
        assert is_constant == (j == place), j


def test_a_side_that_a_model_lacks_is_refused():
    for kind, side, other in (("mlm", "encoder", "decoder"), ("lm", "decoder", "encoder")):
        with pytest.raises(ValueError, match=f"--side {side}"):
            tupe_correlations(build_felt("tupe_a", kind), other, 9)


def test_tupe_s_correlations_are_its_effective_bias_when_content_has_none():
    model = without_content(build_felt("tupe_r", tupe_no_reset=True))  # no symbol occurs in the other measurement
    for side, seen in (("encoder", EARLIER | True), ("decoder", EARLIER)):
        expected = centred(tupe_correlations(model, side, 9), seen)
        close(position_bias(model, side, 9, 3), expected.expand(2, -1, -1, -1))


def test_the_effective_bias_of_alibi_is_its_slopes():
    expected = -slopes(4)[:, None, None] * DISTANCE.abs()
    for kind, side in (("mlm", "encoder"), ("lm", "decoder"), ("translation", "encoder"), ("translation", "decoder")):
        seen = EARLIER if side == "decoder" else EARLIER | True
        bias = position_bias(without_content(build_with("alibi", kind)), side, 9, sentences=40)
        assert bias.shape == (2, 4, 9, 9)
        close(bias, centred(expected, seen).expand(2, -1, -1, -1))
    lines = -slopes(4)[:, None] * torch.arange(-8, 9).abs()
    lines[:, 9:] = float("nan")  # the decoder sees nothing later
    close(by_distance(bias), lines.expand(2, -1, -1))


def test_no_positions_have_no_effective_bias():
    close(position_bias(without_content(build_with("none")), "encoder", 9, 5), torch.zeros(2, 4, 9, 9))
    # with content, chance falls with the number of sentences; but a word meets itself on the diagonal
    model = build_with("none", seed=4)
    with torch.no_grad():
        for layer in model.encoder.layers:
            layer.self_attn.q_proj.weight.mul_(2)
            layer.self_attn.k_proj.weight.copy_(layer.self_attn.q_proj.weight)
    bias = position_bias(model, "encoder", 9, 3000)[0]
    off, on = bias[:, ~torch.eye(9, dtype=torch.bool)].view(4, 9, 8), bias.diagonal(dim1=-2, dim2=-1)
    assert (off - off.mean(-1, keepdim=True)).abs().max() < 0.2 < 1 < (on - off.mean(-1)).min()


def test_every_encoding_is_measured_and_the_model_stays_as_it_was():
    for encoding in SOFTMAX:
        model = build_felt(encoding)
        before = copy.deepcopy(model.state_dict())
        for side, seen in (("encoder", EARLIER | True), ("decoder", EARLIER)):
            bias = position_bias(model, side, 9, 4)
            assert torch.equal(bias.isfinite(), seen.expand(2, 4, -1, -1)), encoding
            torch.testing.assert_close(bias.nansum(-1), torch.zeros(2, 4, 9, dtype=torch.double))
        assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.modules())
        assert same(model.state_dict(), before)


def test_words_are_drawn_with_the_dictionary_s_frequencies_and_no_special_symbols():
    dictionary = task().source_dictionary
    dictionary.count = [1000] * 4 + [0] * (VOCABULARY - 6) + [1, 3]
    words = draw_sentences(dictionary, 200, 50, torch.Generator().manual_seed(1))
    assert words.shape == (200, 50)
    assert words.unique().tolist() == [VOCABULARY - 2, VOCABULARY - 1]
    assert abs((words == VOCABULARY - 1).float().mean() - 0.75) < 0.02
