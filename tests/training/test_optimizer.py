"""The fused Adam makes the updates of fairseq's Adam."""

import copy

import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.optim.adam import Adam, FairseqAdam, FairseqAdamConfig
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer, MemoryEfficientFP16Optimizer
from omegaconf import OmegaConf

from fairseq_rope.training.optimizer import FairseqFusedAdam, FusedAdam

from ..helpers import DEVICES

SHAPES = [(5, 7), (3,), (1,), (4, 2, 3)]
CLOSE = dict(rtol=1e-5, atol=1e-7)
"""Twenty fp32 updates in a different order of operations."""


def parameters(device="cpu", seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(device)) for shape in SHAPES]


def gradients(params, step):
    """Small enough that epsilon is felt, of different size in each parameter, some missing in the first steps."""
    generator = torch.Generator().manual_seed(100 + step)
    for i, p in enumerate(params):
        scale = 10.0 ** -(i + 2)
        p.grad = (scale * torch.randn(p.shape, generator=generator)).to(p)


def groups(params, two):
    return [{"params": params[:2]}, {"params": params[2:], "weight_decay": 0.3, "lr": 0.02}] if two else params


def run(optimizer, params, steps, changing_lr=True):
    for step in steps:
        gradients(params, step)
        if changing_lr:
            for i, group in enumerate(optimizer.param_groups):
                group["lr"] = 1e-2 * (1 + i) / (1 + step)
        optimizer.step()


def assert_same(actual, expected, **tolerance):
    for a, b in zip(actual, expected):
        torch.testing.assert_close(a, b, **(tolerance or CLOSE))


OPTIONS = {
    "plain": dict(weight_decay=0),
    "betas": dict(weight_decay=0, betas=(0.9, 0.98)),
    "weight decay": dict(weight_decay=0.1),
    "epsilon that is felt": dict(weight_decay=0, eps=1e-4, betas=(0.9, 0.98)),
    "all": dict(eps=1e-2, betas=(0.8, 0.9), weight_decay=0.01, lr=0.1),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("two_groups", [False, True])
@pytest.mark.parametrize("name", OPTIONS)
def test_updates_equal_fairseqs_over_20_steps(name, two_groups, device):
    stock, ours = parameters(device), parameters(device)
    start = [p.detach().clone() for p in ours]
    run(Adam(groups(stock, two_groups), **OPTIONS[name]), stock, range(20))
    run(FusedAdam(groups(ours, two_groups), **OPTIONS[name]), ours, range(20))
    assert_same(ours, stock)
    assert all((p - q).abs().max() > 1e-6 for p, q in zip(ours, start))


def test_the_first_update_equals_the_written_formula():
    params, eps, lr = parameters(), 1e-3, 0.1
    before = [p.detach().clone() for p in params]
    gradients(params, 0)
    FusedAdam(params, lr=lr, eps=eps, betas=(0.9, 0.98), weight_decay=0).step()
    for p, old in zip(params, before):
        # of m = 0.1 g and v = 0.02 g^2: lr sqrt(0.02) / 0.1 * m / (sqrt(v) + eps)
        update = lr * 0.02**0.5 * p.grad / (0.02**0.5 * p.grad.abs() + eps)
        torch.testing.assert_close(p.detach(), old - update, **CLOSE)


def test_the_options_keep_their_epsilon():
    params = parameters()
    optimizer = FusedAdam(params, eps=1e-3)
    run(optimizer, params, range(3))
    assert [group["eps"] for group in optimizer.param_groups] == [1e-3]


def test_parameters_without_a_gradient_stay():
    params = parameters()
    optimizer = FusedAdam(params)
    before = params[0].detach().clone()
    for step in range(3):
        gradients(params, step)
        params[0].grad = None
        optimizer.step()
    assert torch.equal(params[0], before) and params[0] not in optimizer.state


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("two_groups", [False, True])
@pytest.mark.parametrize("first,second", [(Adam, FusedAdam), (FusedAdam, Adam), (FusedAdam, FusedAdam)])
def test_states_continue_in_the_other_as_in_their_own(first, second, two_groups, device):
    options = dict(eps=1e-4, betas=(0.9, 0.999), weight_decay=0.1)
    stayed = parameters(device)
    own = first(groups(stayed, two_groups), **options)
    run(own, stayed, range(3))
    moved = [torch.nn.Parameter(p.detach().clone()) for p in stayed]
    other = second(groups(moved, two_groups), **options)
    other.load_state_dict(copy.deepcopy(own.state_dict()))
    for step in range(3, 9):
        run(own, stayed, [step])
        run(other, moved, [step])
        assert_same(moved, stayed, rtol=2e-6, atol=1e-7)
    for p, q in zip(moved, stayed):
        assert int(other.state[p]["step"]) == int(own.state[q]["step"]) == 9


def test_an_update_after_fairseqs_state_is_fused_as_well():
    params, stock = parameters(), parameters()
    adam, ours = Adam(stock), FusedAdam(params)
    run(adam, stock, range(2))
    ours.load_state_dict(adam.state_dict())
    assert all(group["fused"] for group in ours.param_groups)
    copied = copy.deepcopy(ours)
    assert all(group["fused"] for group in copied.param_groups)


@pytest.mark.parametrize("scale", [1e-8, 1e-6, 1.0])
def test_a_parameter_whose_first_gradient_comes_later_gets_fairseqs_update(scale):
    stock, ours = parameters(), parameters()
    optimizers = [
        cls(p, eps=1e-8, betas=(0.9, 0.98), lr=1e-2, weight_decay=0) for cls, p in ((Adam, stock), (FusedAdam, ours))
    ]
    for step in range(30):
        for params, optimizer in zip((stock, ours), optimizers):
            generator = torch.Generator().manual_seed(step)
            for i, p in enumerate(params):
                p.grad = scale * torch.randn(p.shape, generator=generator) if step >= 9 * i else None
            optimizer.step()
        assert_same(ours, stock)
        if step == 20:  # as read from a checkpoint
            optimizers = [copy.deepcopy(optimizer) for optimizer in optimizers]
            stock, ours = ([p for g in o.param_groups for p in g["params"]] for o in optimizers)
    steps = [state["step"] for state in optimizers[1].state_dict()["state"].values()]
    assert steps == [30, 21, 12, 3] and len(optimizers[1].param_groups) == 1


def test_a_state_is_not_changed_by_reading_it():
    params = parameters()
    optimizer = FusedAdam(params)
    run(optimizer, params, range(2))
    steps = [state["step"] for state in optimizer.state_dict()["state"].values()]
    assert steps == [2] * 4 and all(type(step) is int for step in steps)  # in fp32 its powers would be inexact
    assert all(torch.is_tensor(state["step"]) for state in optimizer.state.values())
    assert FusedAdam(parameters()).state_dict()["state"] == {}


def config(**options):
    return OmegaConf.structured(FairseqAdamConfig(**{"lr": [0.01], "tpu": False, **options}))


@pytest.mark.parametrize("betas", ["(0.9, 0.98)", (0.9, 0.98)])
def test_it_has_the_options_of_fairseqs_optimizer(betas):
    cfg = config(adam_betas=betas, adam_eps=1e-4, weight_decay=0.1)
    stock, ours = parameters(), parameters()
    run(FairseqAdam(cfg, stock).optimizer, stock, range(5), changing_lr=False)
    fused = FairseqFusedAdam(cfg, ours)
    run(fused.optimizer, ours, range(5), changing_lr=False)
    assert_same(ours, stock)
    assert fused.get_lr() == 0.01 and fused.supports_flat_params


def test_statistics_in_fp16_are_refused():
    with pytest.raises(ValueError, match="--fp16-adam-stats is not supported by fused_adam"):
        FairseqFusedAdam(config(fp16_adam_stats=True), parameters())


def test_half_precision_without_fp32_parameters_is_refused_with_the_remedy():
    cfg = OmegaConf.create({"common": {"fp16": True, "bf16": False, "fp16_init_scale": 8}, "optimizer": {}})
    with pytest.raises(ValueError, match="--memory-efficient-bf16: choose --optimizer adam, or --fp16 or --bf16"):
        MemoryEfficientFP16Optimizer(cfg, parameters(), FairseqFusedAdam(config(), parameters()))


def half_precision(optimizer_class, dtype, flat):
    """fairseq's optimizer of half precision around ``optimizer_class``, and its parameters after ten updates."""
    params = [torch.nn.Parameter(p.detach().to(dtype)) for p in parameters()]
    is_half = dtype == torch.float16
    common = dict(fp16=is_half, bf16=not is_half, tpu=False, fp16_no_flatten_grads=not flat, fp16_init_scale=8)
    common.update(fp16_scale_window=100, fp16_scale_tolerance=0.0, threshold_loss_scale=None, min_loss_scale=1e-4)
    groups = {"distributed_training": {"distributed_world_size": 1}, "optimization": {"update_freq": [1]}}
    cfg = OmegaConf.create({"common": common, "optimizer": {}, **groups})
    if flat:  # as fairseq's own build_fp32_params on a GPU, whose number is the key
        whole = torch.nn.Parameter(torch.cat([p.detach().float().flatten() for p in params]))
        whole.grad = torch.zeros_like(whole)
        fp32_params = {params[0].device.index: whole}
        fp32_optimizer = optimizer_class(config(adam_eps=1e-4), [whole])
    else:
        fp32_params = FP16Optimizer.build_fp32_params(None, params, flatten=False)
        fp32_optimizer = optimizer_class(config(adam_eps=1e-4), fp32_params)
    optimizer = FP16Optimizer(cfg, params, fp32_optimizer, fp32_params)
    for step in range(10):
        optimizer.zero_grad()
        generator = torch.Generator().manual_seed(step)
        inputs = [torch.randn(p.shape, generator=generator).to(dtype) for p in params]
        optimizer.backward(sum((p * x).sum() for p, x in zip(params, inputs)))
        optimizer.clip_grad_norm(1.0)
        optimizer.step()
    return params


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("flat", [False, True])
def test_half_precision_through_fairseqs_optimizer_equals_stock(dtype, flat):
    ours, stock = (half_precision(cls, dtype, flat) for cls in (FairseqFusedAdam, FairseqAdam))
    # the fp32 values differ in the last bit, which may round to the next number in half precision
    assert_same(ours, stock, rtol=1e-2, atol=1e-4)
    assert all((p - q.to(dtype)).abs().max() > 1e-3 for p, q in zip(ours, parameters()))


@pytest.mark.parametrize("kind", [FairseqAdam, FairseqFusedAdam])
def test_with_amp_the_loss_scale_leaves_the_updates_as_they_are(kind):
    """A gradient that overflows is no update. On a CPU, the scaler of a GPU would be off."""
    plain, scaled = parameters(), parameters()
    cfg = config(adam_eps=1e-4)
    expected, inner = kind(cfg, plain), kind(cfg, scaled)
    actual = AMPOptimizer(OmegaConf.structured(FairseqConfig(optimizer=cfg)), scaled, inner)
    actual._grad_scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    for step in range(6):
        gradients(plain, step)
        gradients(scaled, step)
        actual._grad_scaler.scale(torch.ones(()))  # as a loss
        for p in scaled:
            p.grad.mul_(actual._grad_scaler.get_scale())
        if step == 2:
            scaled[0].grad[0, 0] = float("inf")
        actual.clip_grad_norm(0)
        actual.step()
        if step != 2:
            expected.step()
    assert_same(scaled, plain)
    assert actual._grad_scaler.get_scale() == 64.0
