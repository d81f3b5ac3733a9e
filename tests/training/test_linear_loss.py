"""The linear loss is fairseq's function of logits that exist as a whole: loss, gradients, precisions, chunks."""

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from torch import nn

from fairseq_rope.training import linear_loss
from fairseq_rope.training.linear_loss import linear_label_smoothed_nll_loss

from ..helpers import DEVICES, PAD

FP64 = dict(rtol=1e-10, atol=1e-12)


def stock_loss(features, weight, target, epsilon, ignore_index=None):
    """fairseq's function on logits that exist as a whole, with a softmax in fp32 or better."""
    logits = nn.functional.linear(features, weight)
    lprobs = logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float))
    loss, nll_loss = label_smoothed_nll_loss(lprobs, target, epsilon, ignore_index)
    return loss.sum(), nll_loss.sum()


def tensors(tokens, types, dim=6, dtype=torch.float64, device="cpu", padded=True):
    generator = torch.Generator().manual_seed(tokens + types)
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
        torch.testing.assert_close(a, b, **tolerance)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("types", [3, 37, 1000])
@pytest.mark.parametrize("tokens", [1, 2, 13])
@pytest.mark.parametrize("ignore_index", [None, PAD])
def test_loss_and_gradients_equal_fairseqs_function(tokens, types, epsilon, ignore_index, device):
    inputs = (*tensors(tokens, types, device=device), epsilon, ignore_index)
    assert_same(results(linear_label_smoothed_nll_loss, *inputs), results(stock_loss, *inputs), **FP64)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_padding_that_stays_in_the_batch_has_no_loss_and_no_gradient(epsilon, dtype):
    """As on a GPU; on a CPU it is taken out of the batch before."""
    inputs = (*tensors(13, 37, dtype=dtype), epsilon, PAD)
    tolerance = FP64 if dtype == torch.float64 else dict(rtol=2e-2, atol=2e-2)
    assert_same(results(linear_loss._LinearLoss.apply, *inputs), results(stock_loss, *inputs), **tolerance)
    assert not results(linear_loss._LinearLoss.apply, *inputs)[2][inputs[2].eq(PAD)].any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", [1, 2, 4, 5, 11, 12, 13, 100])
def test_chunks_change_nothing(rows, device, monkeypatch):
    """One chunk, several equal ones, many, and a last small one."""
    monkeypatch.setattr(linear_loss, "CHUNK", {"cpu": rows * 37, "cuda": rows * 37})
    inputs = (*tensors(12, 37, device=device), 0.1, PAD)
    assert_same(results(linear_label_smoothed_nll_loss, *inputs), results(stock_loss, *inputs), **FP64)
    inputs = (*tensors(12, 37, device=device, padded=False), 0.1)
    assert_same(results(linear_label_smoothed_nll_loss, *inputs), results(stock_loss, *inputs), **FP64)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257, 300])
def test_every_number_of_tokens(length, device, monkeypatch):
    monkeypatch.setattr(linear_loss, "CHUNK", {"cpu": 64 * 50, "cuda": 64 * 50})
    inputs = (*tensors(length, 50, device=device), 0.1, PAD)
    assert_same(results(linear_label_smoothed_nll_loss, *inputs), results(stock_loss, *inputs), **FP64)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("factor", [0.0, 1.0, -2.5, 1024.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_a_factor_of_the_loss_is_one_of_the_gradients(factor, dtype, device):
    inputs = (*tensors(9, 37, dtype=dtype, device=device), 0.1, PAD)
    *_, features, weight = results(linear_label_smoothed_nll_loss, *inputs)
    *_, scaled_features, scaled_weight = results(linear_label_smoothed_nll_loss, *inputs, factor=factor)
    tolerance = FP64 if dtype == torch.float64 else dict(rtol=1e-2, atol=1e-3 * max(1, factor))
    assert_same((scaled_features, scaled_weight), (factor * features, factor * weight), **tolerance)


def relative(a, b):
    return float((a.double() - b.double()).norm() / b.double().norm())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("chunk", [7, 1000])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_as_close_to_fp64_as_fairseqs(dtype, chunk, device, monkeypatch):
    """The errors of rounding are of one size: at most one and a half of fairseq's (each chunk rounds its share)."""
    monkeypatch.setattr(linear_loss, "CHUNK", {"cpu": chunk * 300, "cuda": chunk * 300})
    features, weight, target = tensors(120, 300, dtype=dtype, device=device)
    exact = results(stock_loss, features.double(), weight.double(), target, 0.1, PAD)
    ours = results(linear_label_smoothed_nll_loss, features, weight, target, 0.1, PAD)
    stock = results(stock_loss, features, weight, target, 0.1, PAD)
    for a, b, c in zip(ours, stock, exact):
        assert a.dtype == b.dtype and a.shape == b.shape
        assert relative(a, c) < 1.5 * relative(b, c) + 2e-4, (relative(a, c), relative(b, c))


@pytest.mark.parametrize("device", DEVICES)
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


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("factor", [2**-6, 2**-13])
def test_large_sums_of_gradients_fit_in_fp16_once_they_are_scaled(factor, device):
    """Of many tokens that share a component, as the decoder's features do, and one type that is frequent."""
    torch.manual_seed(0)
    shared = torch.randn(16)
    features = nn.functional.layer_norm(shared + 0.3 * torch.randn(20000, 16), (16,)).to(device, torch.half)
    weight = (torch.randn(64, 16) / 4).to(device, torch.half)
    target = torch.randint(0, 64, (20000,)).masked_fill(torch.rand(20000) < 0.17, 5).to(device)
    inputs = features, weight, target, 0.1
    exact = results(stock_loss, features.float(), weight.float(), target, 0.1)[3]
    assert exact.abs().max() > torch.finfo(torch.half).max / 16
    ours = results(linear_label_smoothed_nll_loss, *inputs, factor=factor)[3]
    assert relative(ours, factor * exact) < 1e-2


@pytest.mark.parametrize("device", DEVICES)
def test_logits_beyond_fp16_do_not_become_nan(device):
    """Sums over the vocabulary are beyond fp16's range, logits are not."""
    features = torch.full((3, 4), 50.0, dtype=torch.half, device=device)
    weight = torch.full((2000, 4), 100.0, dtype=torch.half, device=device)
    target = torch.tensor([4, 5, 6], device=device)
    loss, nll_loss, *grads = results(linear_label_smoothed_nll_loss, features, weight, target, 0.1)
    torch.testing.assert_close(nll_loss.cpu(), 3 * torch.tensor(2000.0).log(), rtol=1e-4, atol=0)
    assert loss.isfinite() and all(grad.isfinite().all() for grad in grads)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_nan_and_infinity_show_in_loss_and_gradients(bad):
    """The trainer finds them there."""
    features, weight, target = tensors(4, 10, dtype=torch.float32)
    features = features.detach().clone()
    features[2, 1] = bad
    loss, nll_loss, grad_features, grad_weight = results(linear_label_smoothed_nll_loss, features, weight, target, 0.1)
    assert not loss.isfinite() and not nll_loss.isfinite()
    assert not grad_features[2].isfinite().any() and grad_features[[0, 1, 3]].isfinite().all()
    assert not grad_weight.isfinite().all()


@pytest.mark.parametrize("needs", [(True, False), (False, True)])
def test_only_the_gradients_that_are_needed_are_computed(needs):
    features, weight, target = tensors(7, 37)
    expected = results(stock_loss, features, weight, target, 0.1, PAD)[2:]
    inputs = [x.detach().requires_grad_(need) for x, need in zip((features, weight), needs)]
    linear_label_smoothed_nll_loss(*inputs, target, 0.1, PAD)[0].backward()
    for x, need, grad in zip(inputs, needs, expected):
        if need:
            torch.testing.assert_close(x.grad, grad, **FP64)
        else:
            assert x.grad is None


def test_without_gradients_no_product_of_theirs_is_computed(monkeypatch):
    features, weight, target = tensors(7, 37)
    expected = results(stock_loss, features, weight, target, 0.1, PAD)[:2]
    with torch.no_grad(), torch.profiler.profile() as profile:
        actual = linear_label_smoothed_nll_loss(features, weight, target, 0.1, PAD)
    assert_same(actual, expected, **FP64)
    assert not actual[0].requires_grad
    products = [event for event in profile.events() if event.name in ("aten::mm", "aten::addmm", "aten::addmm_")]
    assert len(products) == 1


def test_a_second_backward_pass_is_refused():
    features, weight, target = tensors(3, 10)
    loss, _ = linear_label_smoothed_nll_loss(features, weight, target, 0.1)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="call backward\\(\\) only once"):
        loss.backward()


def test_a_batch_of_padding_has_no_loss_and_no_gradient():
    features, weight, target = tensors(5, 10)
    target.fill_(PAD)
    loss, nll_loss = linear_label_smoothed_nll_loss(features, weight, target, 0.1, PAD)
    loss *= 0  # what fairseq does with a batch that only keeps other processes company
    loss.backward()
    assert loss == nll_loss == 0
    assert features.grad.eq(0).all() and weight.grad.eq(0).all()


# in a model
