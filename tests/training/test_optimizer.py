"""The fused Adam makes the updates of fairseq's Adam."""

import copy

import pytest
import torch
from fairseq.dataclass.configs import FairseqConfig
from fairseq.optim.adam import Adam, FairseqAdam, FairseqAdamConfig
from fairseq.optim.amp_optimizer import AMPOptimizer
from omegaconf import OmegaConf

from fairseq_rope.training.optimizer import FairseqFusedAdam, FusedAdam

from ..helpers import DEVICES

SHAPES = [(5, 7), (3,), (1,), (4, 2, 3)]
CLOSE = dict(rtol=1e-5, atol=1e-7)
"""Twenty fp32 updates in a different order of operations."""


def parameters(device="cpu"):
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(device)) for shape in SHAPES]


def gradients(params, step):
    """Small enough that epsilon is felt, of different size in each parameter, some missing in the first steps."""
    generator = torch.Generator().manual_seed(100 + step)
    for i, p in enumerate(params):
        scale = 10.0 ** -(i + 2)
        p.grad = (scale * torch.randn(p.shape, generator=generator)).to(p)


def groups(params):
    """Two, of which one has options of its own."""
    return [{"params": params[:2]}, {"params": params[2:], "weight_decay": 0.3, "lr": 0.02, "betas": (0.7, 0.9)}]


def run(optimizer, params, steps):
    for step in steps:
        gradients(params, step)
        for i, group in enumerate(optimizer.param_groups):
            group["lr"] = 1e-2 * (1 + i) / (1 + step)
        optimizer.step()


def assert_same(actual, expected, **tolerance):
    for a, b in zip(actual, expected):
        torch.testing.assert_close(a, b, **(tolerance or CLOSE))


OPTIONS = (
    dict(weight_decay=0),
    dict(weight_decay=0.1),
    dict(weight_decay=0, eps=1e-4, betas=(0.9, 0.98)),  # an epsilon that is felt
    dict(eps=1e-2, betas=(0.8, 0.9), weight_decay=0.01, lr=0.1),
)


def test_a_hook_of_a_step_is_called_once():
    torch.optim.AdamW(parameters())  # PyTorch then wraps the step of this class, too
    params, called = parameters(), []
    optimizer = FusedAdam(params)
    optimizer.register_step_post_hook(lambda *_: called.append(1))
    run(optimizer, params, range(3))
    assert len(called) == 3


@pytest.mark.parametrize("device", DEVICES)
def test_updates_equal_fairseqs_over_20_steps(device):
    for options in OPTIONS:
        stock, ours = parameters(device), parameters(device)
        start = [p.detach().clone() for p in ours]
        run(Adam(groups(stock), **options), stock, range(20))
        run(FusedAdam(groups(ours), **options), ours, range(20))
        assert_same(ours, stock)
        assert all((p - q).abs().max() > 1e-6 for p, q in zip(ours, start))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("first,second", [(Adam, FusedAdam), (FusedAdam, Adam), (FusedAdam, FusedAdam)])
def test_states_continue_in_the_other_as_in_their_own(first, second, device):
    options = dict(eps=1e-4, betas=(0.9, 0.999), weight_decay=0.1)
    stayed = parameters(device)
    own = first(groups(stayed), **options)
    run(own, stayed, range(3))
    moved = [torch.nn.Parameter(p.detach().clone()) for p in stayed]
    other = second(groups(moved), **options)
    other.load_state_dict(copy.deepcopy(own.state_dict()))
    for step in range(3, 9):
        run(own, stayed, [step])
        run(other, moved, [step])
        assert_same(moved, stayed, rtol=2e-6, atol=1e-7)
    for p, q in zip(moved, stayed):
        assert int(other.state[p]["step"]) == int(own.state[q]["step"]) == 9


@pytest.mark.parametrize("scale", [1e-8, 1.0])
def test_a_parameter_whose_first_gradient_comes_later_gets_fairseqs_update(scale):
    stock, ours = parameters(), parameters()
    options = dict(eps=1e-8, betas=(0.9, 0.98), lr=1e-2, weight_decay=0)
    optimizers = [Adam(stock, **options), FusedAdam(ours, **options)]
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


@pytest.mark.parametrize("kind", [FairseqAdam, FairseqFusedAdam])
def test_with_amp_the_loss_scale_leaves_the_updates_as_they_are(kind):
    """A gradient that overflows is no update. On a CPU, the scaler of a GPU would be off."""
    plain, scaled = parameters(), parameters()
    cfg = OmegaConf.structured(FairseqAdamConfig(lr=[0.01], tpu=False, adam_eps=1e-4))
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
