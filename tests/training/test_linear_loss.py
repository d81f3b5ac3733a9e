"""The linear loss is fairseq's function of logits that exist as a whole: loss, gradients, precisions, chunks."""

import itertools

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from torch import nn

from fairseq_rope import products
from fairseq_rope.training import linear_loss
from fairseq_rope.training.linear_loss import linear_label_smoothed_nll_loss

from ..helpers import DEVICES, PAD

FP64 = dict(rtol=1e-10, atol=1e-12)

devices = pytest.mark.parametrize("device", DEVICES)


@pytest.fixture(autouse=True)
def half_precision(monkeypatch):
    """On every processor; those without its instructions compute this loss in fp32."""
    monkeypatch.setattr(products, "has_instructions", lambda dtype: True)


def stock_loss(features, weight, target, epsilon, ignore_index=None, bias=None):
    """fairseq's function on logits that exist as a whole, with a softmax in fp32 or better."""
    logits = nn.functional.linear(features, weight, bias)
    lprobs = logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float))
    loss, nll_loss = label_smoothed_nll_loss(lprobs, target, epsilon, ignore_index)
    return loss.sum(), nll_loss.sum()


def tensors(tokens, types, dtype=torch.float64, device="cpu", padded=True):
    generator, dim = torch.Generator().manual_seed(tokens + types), 6
    features = torch.randn(tokens, dim, generator=generator, dtype=torch.float64)
    weight = torch.randn(types, dim, generator=generator, dtype=torch.float64)
    target = torch.randint(0, types, (tokens,), generator=generator)
    if padded:
        target[torch.rand(tokens, generator=generator) < 0.3] = PAD
    features, weight = (x.to(device, dtype).requires_grad_() for x in (features, weight))
    return features, weight, target.to(device)


def results(function, features, weight, *args, factor=1.0):
    """Loss, negative log-likelihood and both gradients of ``factor`` times the loss."""
    features, weight = (x.detach().requires_grad_() for x in (features, weight))
    loss, nll_loss = function(features, weight, *args)
    (loss * factor).backward()
    return loss.detach(), nll_loss.detach(), features.grad, weight.grad


def assert_same(actual, expected, **tolerance):
    for a, b in zip(actual, expected):
        torch.testing.assert_close(a, b, **(tolerance or FP64))


def assert_as_stock(*inputs, function=linear_label_smoothed_nll_loss, **tolerance):
    assert_same(results(function, *inputs), results(stock_loss, *inputs), **tolerance)


def limit(monkeypatch, rows, types, size=8):
    """Lets so many rows of logits be in memory at once, and half of them go through the softmax at once."""
    monkeypatch.setattr(linear_loss, "CHUNK", dict.fromkeys(("cpu", "cuda"), rows * types * size))
    monkeypatch.setattr(linear_loss, "BLOCK", rows * types * 4 // 2)


def recorded(monkeypatch, *names):
    """A list to which each call of these functions of the linear loss adds its name and its first argument."""
    calls = []

    def recording(name, function):
        return lambda x, *args, **kwargs: calls.append((name, x)) or function(x, *args, **kwargs)

    for name in names:
        monkeypatch.setattr(linear_loss, name, recording(name, getattr(linear_loss, name)))
    return calls


@devices
def test_loss_and_gradients_equal_fairseqs_function(device):
    for tokens, types, epsilon, ignored in itertools.product((1, 2, 13), (3, 37, 1000), (0.0, 0.1), (None, PAD)):
        assert_as_stock(*tensors(tokens, types, device=device), epsilon, ignored)


@devices
def test_chunks_and_blocks_change_nothing(device, monkeypatch):
    """One chunk, several equal ones, many, and a last small one; none has more rows than the limit."""
    products_of = recorded(monkeypatch, "product")
    for padded, rows in itertools.product((False, True), (1, 2, 4, 5, 11, 12, 13, 100)):
        limit(monkeypatch, rows, 37)
        assert_as_stock(*tensors(12, 37, device=device, padded=padded), 0.1, PAD if padded else None)
        assert 0 < max(len(x) for _, x in products_of) <= rows
        products_of.clear()


def test_padding_that_stays_in_the_batch_has_no_loss_and_no_gradient():
    """As on a GPU; on a CPU it is taken out of the batch before."""
    fused = linear_loss._LinearLoss.apply
    for epsilon, dtype in itertools.product((0.0, 0.1), (torch.float64, torch.float16)):
        inputs = (*tensors(13, 37, dtype=dtype), epsilon, PAD)
        assert_as_stock(*inputs, function=fused, **(FP64 if dtype == torch.float64 else dict(rtol=2e-2, atol=2e-2)))
        assert not results(fused, *inputs)[2][inputs[2].eq(PAD)].any()


@devices
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_a_factor_of_the_loss_is_one_of_the_gradients(dtype, device):
    inputs = (*tensors(9, 37, dtype=dtype, device=device), 0.1, PAD)
    gradients = results(linear_label_smoothed_nll_loss, *inputs)[2:]
    for factor in (0.0, 1.0, -2.5, 1024.0):
        scaled = results(linear_label_smoothed_nll_loss, *inputs, factor=factor)[2:]
        tolerance = FP64 if dtype == torch.float64 else dict(rtol=1e-2, atol=1e-3 * max(1, factor))
        assert_same(scaled, [factor * gradient for gradient in gradients], **tolerance)


def relative(a, b):
    return float((a.double() - b.double()).norm() / b.double().norm())


@devices
@pytest.mark.parametrize("rows", [7, 1000])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_as_close_to_fp64_as_fairseqs(dtype, rows, device, monkeypatch):
    """The errors of rounding are of one size: at most one and a half of fairseq's (each chunk rounds its share)."""
    limit(monkeypatch, rows, 300, size=2)
    features, weight, target = tensors(120, 300, dtype=dtype, device=device)
    exact = results(stock_loss, features.double(), weight.double(), target, 0.1, PAD)
    ours = results(linear_label_smoothed_nll_loss, features, weight, target, 0.1, PAD)
    stock = results(stock_loss, features, weight, target, 0.1, PAD)
    for a, b, c in zip(ours, stock, exact):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert relative(a, c) < 1.5 * relative(b, c) + 2e-4, (relative(a, c), relative(b, c))


@devices
def test_small_gradients_survive_fp16_as_with_fairseqs_scaled_loss(device):
    """Of a sure model with many types: each type's share of the smoothing is below fp16's smallest normal number."""
    types, factor = 32000, 128.0
    features = torch.zeros(2, 8, dtype=torch.half, device=device)
    features[:, 0] = 1
    weight = torch.zeros(types, 8, dtype=torch.half, device=device)
    weight[5, 0] = 40
    target = torch.tensor([5, 5], device=device)
    exact = results(stock_loss, features.double(), weight.double(), target, 0.1)[3]
    ours = results(linear_label_smoothed_nll_loss, features, weight, target, 0.1, factor=factor)[3] / factor
    others = torch.arange(types, device=device) != 5
    assert relative(ours[others, 0], exact[others, 0]) < 2e-3


@devices
@pytest.mark.parametrize("factor", [2**-6, 2**-13])
@pytest.mark.parametrize("share, tokens, size", [(0.17, 20000, 1), (1, 20000, 60)])
def test_large_sums_of_gradients_fit_in_fp16_once_they_are_scaled(share, tokens, size, factor, device):
    """Of many tokens that share a component, as the decoder's features do, and one type that is frequent."""
    torch.manual_seed(0)
    features = nn.functional.layer_norm(torch.randn(16) + 0.3 * torch.randn(tokens, 16), (16,))
    features, weight = ((x * size).to(device, torch.half) for x in (features, torch.randn(64, 16) / 4 / size**2))
    target = torch.randint(0, 64, (tokens,)).masked_fill(torch.rand(tokens) < share, 5).to(device)
    inputs = features, weight, target, 0.1
    exact = results(stock_loss, features.float(), weight.float(), target, 0.1)[3]
    assert exact.abs().max() > torch.finfo(torch.half).max / 32
    ours = results(linear_label_smoothed_nll_loss, *inputs, factor=factor)[3]
    assert relative(ours, factor * exact) < 1e-2


@devices
def test_logits_beyond_fp16_do_not_become_nan(device):
    """Sums over the vocabulary are beyond fp16's range, logits are not."""
    features = torch.full((3, 4), 50.0, dtype=torch.half, device=device)
    weight = torch.full((2000, 4), 100.0, dtype=torch.half, device=device)
    target = torch.tensor([4, 5, 6], device=device)
    loss, nll_loss, *grads = results(linear_label_smoothed_nll_loss, features, weight, target, 0.1)
    torch.testing.assert_close(nll_loss.cpu(), 3 * torch.tensor(2000.0).log(), rtol=1e-4, atol=0)
    assert loss.isfinite() and all(grad.isfinite().all() for grad in grads)


def test_nan_and_infinity_show_in_loss_and_gradients():
    """The trainer finds them there."""
    for bad in (float("nan"), float("inf")):
        features, weight, target = tensors(4, 10, dtype=torch.float32)
        features = features.detach().clone()
        features[2, 1] = bad
        loss, nll_loss, *grads = results(linear_label_smoothed_nll_loss, features, weight, target, 0.1)
        assert not loss.isfinite() and not nll_loss.isfinite() and not grads[1].isfinite().all()
        assert not grads[0][2].isfinite().any() and grads[0][[0, 1, 3]].isfinite().all()


def test_only_the_gradients_that_are_needed_are_computed(monkeypatch):
    features, weight, target = tensors(7, 37)
    calls = recorded(monkeypatch, "product", "weight_gradient")
    expected = results(stock_loss, features, weight, target, 0.1, PAD)[2:]
    for needs in ((True, False), (False, True)):
        inputs = [x.detach().requires_grad_(need) for x, need in zip((features, weight), needs)]
        calls.clear()
        linear_label_smoothed_nll_loss(*inputs, target, 0.1, PAD)[0].backward()
        assert [name for name, _ in calls] == ["product", "weight_gradient" if needs[1] else "product"]
        torch.testing.assert_close(inputs[needs[1]].grad, expected[needs[1]], **FP64)


def test_a_batch_of_padding_has_no_loss_and_no_gradient():
    features, weight, target = tensors(5, 10)
    target.fill_(PAD)
    loss, nll_loss = linear_label_smoothed_nll_loss(features, weight, target, 0.1, PAD)
    loss *= 0  # what fairseq does with a batch that only keeps other processes company
    loss.backward()
    assert loss == nll_loss == 0
    assert features.grad.eq(0).all() and weight.grad.eq(0).all()
