"""RoPE: equations 6 to 8 and 26 of the paper, layouts, options."""

import functools
import math

import pytest
import torch

from fairseq_rope.positions.rope import RotaryEncoding, RotaryOptions, layout_permutation

from ..helpers import FP32, build_felt, build_with, decoder_input, pad, sentences, side_config, token_positions
from .equations import D
from .whole_models import decode_step_by_step, logits, texts

LAYOUTS = pytest.mark.parametrize("layout", ["interleaved", "half"])


def rope(causal=False, **options):
    return RotaryEncoding(side_config(causal=causal), RotaryOptions(**options))


def rotated(encoding, x, positions):
    """``x`` ``(..., T, D)`` at ``positions`` ``(T,)``."""
    context = encoding.prepare(token_positions(positions), token_positions(positions))
    return encoding.transform(x, x, **context)[0]


def plainly_rotated(_, x, positions, dim=D, layout="interleaved", base=10000.0, factor=1.0):
    """Eq. 26 for ``x`` ``(..., T, D)``, in real numbers that autograd differentiates."""
    exponents = -torch.arange(0, dim, 2, dtype=torch.double) / dim
    angles = positions.double()[:, None] / factor * base**exponents  # (T, dim/2)
    cos, sin = angles.cos().float(), angles.sin().float()
    halves = slice(0, dim // 2), slice(dim // 2, dim)
    first, second = (slice(0, dim, 2), slice(1, dim, 2)) if layout == "interleaved" else halves
    precise = x.float()
    out = precise.clone()
    out[..., first] = precise[..., first] * cos - precise[..., second] * sin
    out[..., second] = precise[..., first] * sin + precise[..., second] * cos
    return out


@LAYOUTS
def test_compiled_rotations_are_the_same_at_any_length(layout):
    torch._dynamo.reset()
    encoding = rope(layout=layout)
    compiled = torch.compile(functools.partial(rotated, encoding), backend="aot_eager")
    with torch.no_grad():
        for length in (10, 6, 13):
            x, positions = torch.randn(3, 4, length, D), torch.arange(length)
            torch.testing.assert_close(compiled(x, positions), rotated(encoding, x, positions), **FP32)


@LAYOUTS
@pytest.mark.parametrize("options", [{}, dict(dim=4), dict(base=500.0), dict(scaling="linear", scaling_factor=3.0)])
def test_the_written_backward_pass_is_autograds_of_the_formula(options, layout):
    """In half precision as well: rotations are in fp32."""
    positions = torch.tensor([0, 1, 7, 100, 4095])
    plain = {"factor" if name == "scaling_factor" else name: v for name, v in options.items() if name != "scaling"}
    for dtype in (torch.float, torch.bfloat16, torch.float16):
        encoding = rope(layout=layout, **options).to(dtype)  # as model.half() and model.bfloat16() do
        values, weights = torch.randn(2, 2, 3, 5, D).to(dtype)
        outputs, gradients = [], []
        for rotate in (rotated, functools.partial(plainly_rotated, layout=layout, **plain)):
            x = values.clone().requires_grad_()
            outputs.append(rotate(encoding, x, positions))
            gradients += torch.autograd.grad(outputs[-1], x, weights.float())
        tolerance = FP32 if dtype == torch.float else dict(rtol=2**-7, atol=1e-5)  # one rounding to bf16
        torch.testing.assert_close(*outputs, **FP32)
        torch.testing.assert_close(*gradients, **tolerance)
        assert not torch.allclose(gradients[0][..., 1:, :], weights[..., 1:, :])


def test_ntk_scaling_stretches_the_longest_wavelength_by_the_factor_and_keeps_the_shortest():
    for dim in (0, 6):
        encodings = rope(dim=dim), rope(dim=dim, scaling="ntk", scaling_factor=4.0)
        plain, scaled = (encoding.rotation(torch.tensor([[1]])).angle().flatten() for encoding in encodings)
        torch.testing.assert_close(scaled[0], plain[0])
        torch.testing.assert_close(scaled[-1], plain[-1] / 4)


def test_yarn_divides_slow_frequencies_keeps_fast_ones_and_sharpens_the_attention():
    """Peng et al. 2024, section 3.2, written out by the number of turns within the original length."""
    length, factor = 2048, 4.0
    encoding = rope(scaling="yarn", scaling_factor=factor, original_length=length, base=1e6)
    plain = rope(base=1e6).rotation(torch.tensor([[1]])).angle().flatten().double()
    expected = []
    for theta in plain.tolist():
        turns = length * theta / (2 * math.pi)
        gamma = 0.0 if turns < 1 else 1.0 if turns > 32 else (turns - 1) / 31
        expected.append((1 - gamma) * theta / factor + gamma * theta)
    assert expected[0] == plain[0] and expected[-1] == pytest.approx(plain[-1] / factor)
    assert plain[1] / factor < expected[1] < plain[1]
    angles = encoding.rotation(torch.tensor([[1]])).angle().flatten().double()
    torch.testing.assert_close(angles, torch.tensor(expected, dtype=torch.double), rtol=1e-5, atol=0)
    assert encoding.logit_scale(D) == pytest.approx(D**-0.5 * (0.1 * math.log(factor) + 1) ** 2)
    options = RotaryOptions(scaling="yarn", scaling_factor=factor, original_length=length // 8, base=1e6)
    apart = RotaryEncoding(side_config(gap=8), options)  # as many positions, for fewer tokens
    assert torch.equal(apart.rotation(torch.tensor([[1]])), encoding.rotation(torch.tensor([[1]])))


def test_dynamic_scaling_is_ntk_by_as_much_as_the_source_is_longer():
    encoding, positions = rope(scaling="dynamic", scaling_factor=2.0, original_length=64), torch.arange(9)[None]
    rotation = encoding.rotation(positions, torch.tensor([[10], [64], [160]]))
    assert torch.equal(rotation[:1], rope().rotation(positions)) and torch.equal(rotation[1], rotation[0])
    torch.testing.assert_close(rotation[2:], rope(scaling="ntk", scaling_factor=4.0).rotation(positions))  # 2 * 1.5 + 1


DYNAMIC = dict(rope_scaling="dynamic", rope_original_length=4)


@pytest.mark.parametrize("encoding", ["rope", "linear"])
def test_with_dynamic_scaling_a_sentence_is_translated_by_its_own_length(encoding):
    model = build_felt(encoding, **{name.replace("rope", encoding): value for name, value in DYNAMIC.items()})
    short, long, target = sentences(1, 5), sentences(1, 11, seed=4), decoder_input(sentences(2, 9, seed=2))
    together = torch.cat([pad(short, left=6), long])
    expected = torch.cat([logits(model, short, target[:1]), logits(model, long, target[1:])])
    torch.testing.assert_close(logits(model, together, target), expected, **FP32)
    steps, _ = decode_step_by_step(model, together, target)
    torch.testing.assert_close(steps, expected, **FP32)
    plain = build_felt(encoding)
    plain.load_state_dict(model.state_dict())
    assert (logits(plain, long, target[1:]) - expected[1:]).abs().max() > 1e-3


def test_dynamic_scaling_needs_a_source():
    text = texts(1, 9)
    assert logits(build_felt("rope", "mlm", **DYNAMIC), text, text).isfinite().all()  # a text is its own source
    with pytest.raises(ValueError, match="--rope-scaling dynamic"):
        logits(build_felt("rope", "lm", **DYNAMIC), text, text)


@pytest.mark.parametrize("encoding", ["rope", "linear"])
@LAYOUTS
def test_an_odd_head_dimension_is_refused_and_works_with_the_remedy_that_the_error_names(encoding, layout):
    size = dict(encoder_embed_dim=28, decoder_embed_dim=28)
    with pytest.raises(ValueError, match=f"--{encoding}-dim 6"):
        build_with(encoding, **size)
    model = build_with(encoding, **size, **{f"{encoding}_dim": 6, f"{encoding}_layout": layout})
    assert model(sentences(2, 5), None, decoder_input(sentences(2, 5)))[0].isfinite().all()


def test_a_layout_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="interleaved, half, not 'Half'"):
        layout_permutation(8, 8, "Half")
