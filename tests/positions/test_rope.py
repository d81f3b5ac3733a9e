"""RoPE: equations 6 to 8 and 26 of the paper, layouts, options."""

import functools

import pytest
import torch

from fairseq_rope.positions.rope import RotaryEncoding, RotaryOptions, convert_layout, layout_permutation

from ..helpers import FP32, build_with, decoder_input, sentences, stack, steps
from .equations import D, rotation_matrix


def rope(causal=False, **options):
    return RotaryEncoding(stack(causal=causal), RotaryOptions(**options))


def rotated(encoding, x, positions):
    """``x`` ``(..., T, D)`` at ``positions`` ``(T,)``."""
    context = encoding.prepare(steps(positions), steps(positions))
    return encoding.rotate(x, x, **context)[0]


@pytest.mark.parametrize("base", [10000.0, 500.0])
def test_it_equals_the_rotation_matrix_of_the_paper(base):
    x, positions = torch.randn(2, 3, 5, D), torch.tensor([0, 1, 7, 100, 4095])
    actual = rotated(rope(base=base), x, positions)
    for t, position in enumerate(positions.tolist()):
        expected = x[..., t, :].double() @ rotation_matrix(position, base=base).T
        torch.testing.assert_close(actual[..., t, :].double(), expected, **FP32)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_norms_are_kept(layout):
    x = torch.randn(2, 3, 6, D)
    actual = rotated(rope(layout=layout), x, torch.tensor([0, 1, 2, 50, 1000, 4095]))
    torch.testing.assert_close(actual.norm(dim=-1), x.norm(dim=-1), **FP32)
    assert not torch.allclose(actual[..., 1:, :], x[..., 1:, :])


def plainly_rotated(_, x, positions, dim=D, layout="interleaved", base=10000.0, factor=1.0):
    """Eq. 26 for ``x`` ``(..., T, D)``, in real numbers that autograd differentiates."""
    angles = (
        positions.double()[:, None] / factor * base ** (-torch.arange(0, dim, 2, dtype=torch.double) / dim)
    )  # (T, dim/2)
    cos, sin = angles.cos().float(), angles.sin().float()
    first, second = (
        (slice(0, dim, 2), slice(1, dim, 2)) if layout == "interleaved" else (slice(0, dim // 2), slice(dim // 2, dim))
    )
    precise = x.float()
    out = precise.clone()
    out[..., first] = precise[..., first] * cos - precise[..., second] * sin
    out[..., second] = precise[..., first] * sin + precise[..., second] * cos
    return out


@pytest.mark.parametrize("dtype", [torch.float, torch.bfloat16])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("options", [{}, dict(dim=4), dict(base=500.0), dict(scaling="linear", scaling_factor=3.0)])
def test_the_written_backward_pass_is_autograds_of_the_formula(options, layout, dtype):
    encoding, positions = rope(layout=layout, **options), torch.tensor([0, 1, 7, 100, 1000])
    plain = {"factor" if name == "scaling_factor" else name: v for name, v in options.items() if name != "scaling"}
    values, weights = torch.randn(2, 2, 3, 5, D).to(dtype)
    outputs, gradients = [], []
    for rotate in (rotated, functools.partial(plainly_rotated, layout=layout, **plain)):
        x = values.clone().requires_grad_()
        outputs.append(rotate(encoding, x, positions))
        gradients += torch.autograd.grad(outputs[-1], x, weights.float())
    tolerance = FP32 if dtype == torch.float else dict(rtol=2**-7, atol=1e-5)  # one rounding to bf16
    torch.testing.assert_close(*outputs, **tolerance)
    torch.testing.assert_close(*gradients, **tolerance)
    assert not torch.allclose(gradients[0][..., 1:, :], weights[..., 1:, :])


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_products_depend_on_the_distance_only(layout):
    q, k = torch.randn(D), torch.randn(D)
    encoding = rope(layout=layout)

    def product(i, j):
        return (
            rotated(encoding, q[None, None, None], torch.tensor([i])).flatten()
            @ rotated(encoding, k[None, None, None], torch.tensor([j])).flatten()
        )

    for i, j in ((0, 3), (5, 2), (10, 10)):
        torch.testing.assert_close(product(i, j), product(i + 977, j + 977), rtol=1e-4, atol=1e-4)
    assert abs(product(0, 3) - product(0, 4)) > 1e-3


def test_the_half_layout_is_the_interleaved_one_permuted():
    x, positions = torch.randn(2, 3, 5, D), torch.arange(5) * 3
    order = layout_permutation(D, D, "half")
    interleaved = rotated(rope(), x, positions)
    half = rotated(rope(layout="half"), x[..., order], positions)
    assert torch.equal(half, interleaved[..., order]) or torch.allclose(half, interleaved[..., order], atol=1e-6)
    back = layout_permutation(D, D, "interleaved")
    assert torch.equal(order[back], torch.arange(D))


@pytest.mark.parametrize("dim", [0, 4])
def test_a_converted_model_computes_the_same(dim):
    model = build_with("rope", rope_dim=dim)
    other = build_with("rope", rope_dim=dim, rope_layout="half", seed=5)
    state = model.state_dict()
    for side in ("encoder", "decoder"):
        state = convert_layout(state, num_heads=4, dim=dim or D, layout="half", side=side)
    other.load_state_dict(state)
    source, target = sentences(3, 9), decoder_input(sentences(3, 8, seed=2))
    with torch.no_grad():
        torch.testing.assert_close(other(source, None, target)[0], model(source, None, target)[0], **FP32)
    for side in ("encoder", "decoder"):
        state = convert_layout(state, num_heads=4, dim=dim or D, layout="interleaved", side=side)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_partial_rotation_leaves_the_other_channels_alone(layout):
    x, positions = torch.randn(1, 2, 5, D), torch.arange(5) + 1
    partial = rotated(rope(dim=4, layout=layout), x, positions)
    assert torch.equal(partial[..., 4:], x[..., 4:])
    whole = RotaryEncoding(stack(embed_dim=16), RotaryOptions(layout=layout))
    torch.testing.assert_close(partial[..., :4], rotated(whole, x[..., :4], positions))


@pytest.mark.parametrize("encoding", ["rope", "linear"])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_an_odd_head_dimension_works_with_the_remedy_that_the_error_names(encoding, layout):
    options = {f"{encoding}_dim": 6, f"{encoding}_layout": layout}
    model = build_with(encoding, encoder_embed_dim=28, decoder_embed_dim=28, **options)
    assert model(sentences(2, 5), None, decoder_input(sentences(2, 5)))[0].isfinite().all()


def test_linear_scaling_divides_the_positions():
    x = torch.randn(1, 1, 3, D)
    scaled = rotated(rope(scaling="linear", scaling_factor=4.0), x, torch.tensor([0, 4, 8]))
    torch.testing.assert_close(scaled, rotated(rope(), x, torch.tensor([0, 1, 2])))


def test_ntk_scaling_stretches_the_longest_wavelength_by_the_factor_and_keeps_the_shortest():
    factor = 4.0
    plain, scaled = (
        e.rotation(torch.tensor([[1]])).angle().flatten() for e in (rope(), rope(scaling="ntk", scaling_factor=factor))
    )
    torch.testing.assert_close(scaled[0], plain[0])
    torch.testing.assert_close(scaled[-1], plain[-1] / factor)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_half_precision_is_rotated_in_fp32_even_at_position_4096(dtype, layout):
    encoding = rope(layout=layout).to(dtype)  # as model.half() and model.bfloat16() do
    x, positions = torch.randn(2, 2, 4, D).to(dtype), torch.tensor([1, 1000, 2048, 4096])
    exact = rotated(encoding, x.float(), positions)
    actual = rotated(encoding, x, positions)
    torch.testing.assert_close(actual, exact)


@pytest.mark.parametrize(
    "options,message",
    [
        (dict(dim=3), "--rope-dim must be even, not 3"),
        (dict(dim=10), "--rope-dim must be between 2 and 8, the channels that it could rotate, not 10"),
        (dict(base=0.5), "--rope-base must be greater than 1 and at most 1e.30, not 0.5"),
        (dict(layout="spiral"), "--rope-layout must be one of interleaved, half, not 'spiral'"),
        (dict(scaling="yarn"), "--rope-scaling must be one of none, linear, ntk, not 'yarn'"),
        (
            dict(scaling="linear", scaling_factor=0.5),
            "--rope-scaling-factor must be at least 1 and at most 1e.06, not 0.5",
        ),
        (dict(base=1e308), "--rope-base must be greater than 1 and at most"),
        (dict(scaling="ntk", scaling_factor=1e300), "--rope-scaling-factor must be at least 1 and at most"),
        (dict(base=float("nan")), "--rope-base must be greater than 1 and at most 1e.30, not nan"),
        (dict(scaling="linear"), "--rope-scaling linear needs a --rope-scaling-factor greater than 1"),
        (dict(scaling_factor=2.0), "--rope-scaling-factor needs --rope-scaling linear or ntk"),
        (dict(scaling="ntk", scaling_factor=2.0, dim=2), "needs more than one pair"),
    ],
)
def test_wrong_options_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        rope(**options)


def test_an_odd_head_dimension_is_refused():
    with pytest.raises(ValueError, match="RoPE rotates pairs of channels and needs an even dimension, but it is 7"):
        build_with("rope", encoder_embed_dim=28, decoder_embed_dim=28)
