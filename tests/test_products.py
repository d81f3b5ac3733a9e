"""Products by oneDNN, and in fp32 for half precision, are PyTorch's up to rounding, with their gradients."""

import itertools
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.multiprocessing
import torch.nn.functional as F
from fairseq.data import ListDataset
from fairseq.data.iterators import EpochBatchIterator
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from fairseq_rope import products
from fairseq_rope.products import PackedLinear, linear
from fairseq_rope.training.linear_loss import linear_label_smoothed_nll_loss

from .helpers import ENCODINGS, build, build_with, decoder_input, randomised, sentences

FLAGS = set()
"""Of an x86 processor under Linux."""
if (CPU := Path("/proc/cpuinfo")).exists():
    FLAGS = {flag for line in CPU.read_text().splitlines() if line.startswith("flags") for flag in line.split()}

NEEDS_ONEDNN = pytest.mark.skipif(not products.is_available(), reason="this PyTorch lacks oneDNN or its operators")
ROUNDING = 2**-22  # of a sum's terms, relative to the sum of their sizes, times a few dozen terms


@pytest.fixture
def onednn(monkeypatch):
    """Everything that oneDNN can compute goes there, however small."""
    if not products.is_available():
        pytest.skip("this PyTorch lacks oneDNN or its operators")
    monkeypatch.setenv(products.VARIABLE, products.ONEDNN)
    monkeypatch.setattr(products, "_library", None)
    monkeypatch.setattr(products, "SMALLEST", 1)
    monkeypatch.setattr(products, "PACKED", 0)


@pytest.fixture
def calls(onednn, monkeypatch):
    """The shapes of the first operands that went to oneDNN."""
    seen = []
    operator = products.onednn
    monkeypatch.setattr(products, "onednn", lambda x, *rest: (seen.append(tuple(x.shape)), operator(x, *rest))[1])
    return seen


@pytest.mark.parametrize("rows, inputs, outputs", [(0, 5, 3), (1, 7, 11), (13, 37, 5), (5, 3, 70)])
def test_products_and_gradients_are_exact_up_to_rounding(rows, inputs, outputs, calls):
    torch.manual_seed(rows)
    forms = [torch.randn(rows, inputs), torch.randn(inputs, rows).t(), torch.randn(rows, 2 * inputs)[:, ::2]]
    for x, bias in itertools.product((*forms, torch.randn(1, 1).expand(rows, inputs)), (True, False)):
        weight, row = torch.randn(outputs, inputs), torch.randn(outputs) if bias else None
        given = [t.detach().requires_grad_() for t in (x, weight, row) if t is not None]
        exact = [t.detach().double().requires_grad_() for t in given]
        out, expected = linear(*given), F.linear(*exact)
        for share in (torch.randn(rows, outputs), torch.ones(1, 1).expand(rows, outputs)):
            actual = torch.autograd.grad(out, given, share, retain_graph=True)
            wanted = torch.autograd.grad(expected, exact, share.double(), retain_graph=True)
            for a, b in zip((out, *actual), (expected, *wanted)):
                bound = 100 * ROUNDING * max(rows, inputs, outputs) ** 0.5
                torch.testing.assert_close(a.double(), b, rtol=0, atol=bound, msg=f"{x.stride()}")
    assert calls or not rows


def test_gradients_of_gradients_are_right(onednn):
    torch.manual_seed(0)
    x, weight = torch.randn(4, 6, requires_grad=True), torch.randn(5, 6, requires_grad=True)

    def penalty(function, *operands):
        grads = torch.autograd.grad(function(*operands).pow(3).sum(), operands, create_graph=True)
        return torch.autograd.grad(sum(g.pow(2).sum() for g in grads), operands)

    exact = [t.detach().double().requires_grad_() for t in (x, weight)]
    for actual, expected in zip(penalty(linear, x, weight), penalty(F.linear, *exact)):
        torch.testing.assert_close(actual.double(), expected, rtol=1e-4, atol=1e-3)


def test_operands_without_a_gradient_get_none_and_cost_no_product(calls):
    x, weight = torch.randn(4, 6), torch.randn(5, 6, requires_grad=True)
    linear(x, weight).sum().backward()
    assert x.grad is None and weight.grad is not None
    assert len(calls) == 2  # the output and the weight's gradient
    linear(x, weight.detach())
    assert len(calls) == 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_without_instructions_is_multiplied_in_fp32_and_rounded_once(dtype, calls, monkeypatch):
    monkeypatch.setattr(products, "has_instructions", lambda asked: asked is not dtype)
    monkeypatch.setattr(products, "WORTH_CONVERTING", 1)
    given = [torch.randn(*shape).to(dtype).requires_grad_() for shape in ((2, 9, 6), (7, 6), (7,))]
    exact = [each.detach().double().requires_grad_() for each in given]
    out, expected = linear(*given), F.linear(*exact)
    share = torch.randn_like(out)
    actual, wanted = torch.autograd.grad(out, given, share), torch.autograd.grad(expected, exact, share.double())
    for a, b in zip((out, *actual), (expected, *wanted)):
        assert a.dtype is dtype
        torch.testing.assert_close(a.double(), b, rtol=0.51 * torch.finfo(dtype).eps, atol=1e-5)
    assert len(calls) == 3


class ProductsInHalf(TorchDispatchMode):
    """The names of the matrix products whose operands have half precision."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        halves = [x for x in args if isinstance(x, torch.Tensor) and x.dtype in (torch.bfloat16, torch.float16)]
        if halves and function.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm):
            self.names.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_without_instructions_no_step_of_a_training_has_products_in_half_precision(encoding, monkeypatch):
    monkeypatch.setattr(products, "has_instructions", lambda dtype: dtype is torch.float)
    monkeypatch.setattr(products, "WORTH_CONVERTING", 1)
    model = build_with(encoding).bfloat16().train()
    target = decoder_input(sentences(3, 14, seed=2))
    with ProductsInHalf() as seen:
        features = model(sentences(3, 17), None, target, features_only=True)[0].flatten(0, 1)
        weight = model.decoder.output_projection.weight
        linear_label_smoothed_nll_loss(features, weight, target.flatten(), 0.1)[0].backward()
        assert not seen.names
        torch.mm(weight, weight.t())
        assert seen.names  # it notices


@pytest.mark.skipif(not FLAGS, reason="the system does not say what the processor has")
def test_instructions_for_bf16_are_those_of_the_processor():
    assert products.has_instructions(torch.bfloat16) == bool(FLAGS & {"avx512_bf16", "amx_bf16"})


def test_autocast_stays_with_pytorch_but_not_the_gradients_of_what_was_before_it(calls, monkeypatch):
    monkeypatch.setattr(products, "has_instructions", lambda dtype: True)
    for dtype in (torch.bfloat16, torch.float64):  # and other precisions do
        linear(torch.randn(4, 6, dtype=dtype), torch.randn(5, 6, dtype=dtype))
    x, weight = torch.randn(4, 6), torch.randn(5, 6, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        assert linear(x, weight).dtype == torch.bfloat16
    assert not calls
    out = linear(x, weight)
    with torch.autocast("cpu", torch.bfloat16):
        out.sum().backward()
    torch.testing.assert_close(weight.grad, x.sum(0).expand(5, 6), rtol=1e-5, atol=1e-5)


def loss_and_gradients(model):
    source, target = sentences(3, 9), decoder_input(sentences(3, 7, seed=2))
    model.train()
    model.zero_grad()
    loss = model(source, None, target)[0].float().pow(2).mean()
    loss.backward()
    return [loss, *(p.grad for p in model.parameters() if p.grad is not None)]


def test_a_model_trains_alike_with_either_library(calls, monkeypatch):
    model = randomised(build("tupe_r_tiny", dropout=0.0))
    fast = loss_and_gradients(model)
    assert len(calls) > 3 * sum(type(module) is nn.Linear for module in model.modules()) - 3  # all, with both gradients
    assert all(type(module) is nn.Linear for module in model.modules() if isinstance(module, nn.Linear))
    monkeypatch.setattr(products, "_library", products.BLAS)
    for actual, expected in zip(fast, [t.clone() for t in loss_and_gradients(model)]):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@NEEDS_ONEDNN
def test_the_clearly_faster_library_is_taken_once(monkeypatch):
    monkeypatch.delenv(products.VARIABLE, raising=False)
    for speed, expected in ((1.1, products.BLAS), (1.3, products.ONEDNN)):
        monkeypatch.setattr(products, "_library", None)
        monkeypatch.setattr(products, "speed_of_onednn", lambda speed=speed: speed)
        assert products.chosen() is None
        assert products.library() == products.chosen() == expected
        monkeypatch.setattr(products, "speed_of_onednn", lambda speed=speed: 2.4 - speed)
        assert products.library() == expected


@NEEDS_ONEDNN
@pytest.mark.parametrize("required", ["", products.BLAS])
def test_a_continued_run_takes_the_library_of_its_checkpoint_unless_one_is_required(required, monkeypatch):
    iterator = EpochBatchIterator(ListDataset([1, 2, 3], [1, 1, 1]), list, [[0], [1], [2]])
    iterator.next_epoch_itr()
    monkeypatch.setenv(products.VARIABLE, required)
    monkeypatch.setattr(products, "_library", products.ONEDNN)
    saved = iterator.state_dict()
    monkeypatch.setattr(products, "_library", products.BLAS)
    iterator.load_state_dict(saved)
    assert products.library() == (required or products.ONEDNN)


def test_an_operator_that_fails_is_given_up_with_one_warning(onednn, monkeypatch, caplog):
    def fail(*_):
        raise RuntimeError("no such primitive")

    monkeypatch.setattr(products, "onednn", fail)
    x, weight = torch.randn(4, 6), torch.randn(5, 6, requires_grad=True)
    for _ in range(2):
        assert torch.equal(linear(x, weight), F.linear(x, weight))
    assert len(caplog.records) == 1
    monkeypatch.setattr(products, "_library", products.ONEDNN)
    with pytest.raises(RuntimeError, match="shapes"):  # the operands are wrong, not the library
        linear(x, torch.randn(5, 7))
    assert products.chosen() == products.ONEDNN


def _decide(rank, place, answers):
    group = dict(init_method=f"file://{place}", rank=rank, world_size=2, timeout=timedelta(seconds=20))
    torch.distributed.init_process_group("gloo", **group)
    if rank == 1:
        answers.put(products._agreed(lambda: "what was measured first"))
    torch.distributed.barrier()
    answers.put(products._agreed(lambda: f"what {rank} measured"))
    torch.distributed.barrier()


def test_the_first_process_that_needs_a_library_decides_and_waits_for_no_other(tmp_path):
    """In small batches of another one, no product may be large enough, and it waits for the gradients of this one."""
    answers = torch.multiprocessing.get_context("fork").SimpleQueue()
    arguments = str(tmp_path / "store"), answers
    torch.multiprocessing.start_processes(_decide, arguments, nprocs=2, start_method="fork")
    assert [answers.get() for _ in range(3)] == ["what was measured first"] * 3


@pytest.mark.parametrize("library", [products.ONEDNN, products.BLAS])
def test_packed_layers_are_the_layers_side_by_side(library, onednn, monkeypatch):
    monkeypatch.setenv(products.VARIABLE, library)
    torch.manual_seed(0)
    for rows, bias in itertools.product((1, 3, 70), (True, False)):
        layers, x = [nn.Linear(24, width, bias=bias) for width in (8, 40, 5)], torch.randn(rows, 24)
        expected = torch.cat([layer(x) for layer in layers], dim=1)
        packed = PackedLinear.of(*layers)
        assert packed.is_packed == (library == products.ONEDNN)
        torch.testing.assert_close(packed(x), expected, rtol=1e-5, atol=1e-5)
    layer, x = nn.Linear(64, 40).bfloat16(), torch.randn(4, 64).bfloat16()
    precise = F.linear(x.float(), layer.weight.float(), layer.bias.float())
    for instructions in (False, True):
        monkeypatch.setattr(products, "has_instructions", lambda dtype, have=instructions: have or dtype is torch.float)
        out = PackedLinear.of(layer)(x)
        assert out.dtype is torch.bfloat16
        torch.testing.assert_close(out.float(), precise, rtol=1e-2, atol=1e-2)


def test_what_is_measured_is_in_fp32_and_changes_neither_threads_nor_the_count_of_the_caller():
    precisions, before = set(), torch.get_num_threads()

    def product(x, weight):
        output = F.linear(x, weight)
        precisions.add(output.dtype)
        return output

    torch.set_num_threads(2)
    try:
        with FlopCounterMode(display=False) as counted, torch.autocast("cpu", torch.bfloat16):
            assert products._ratio(product, product) > 0 and torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert counted.get_total_flops() == 0 and precisions == {torch.float32}
