"""With the fused loss and optimizer, fairseq's trainer makes the updates that it makes with its own."""

import copy
import functools

import pytest
import torch
from fairseq import options, utils
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks.translation import TranslationTask
from fairseq.trainer import Trainer

from pipeline.training import worker

from ..commands import SMALL
from ..helpers import DEVICES, same, task
from .test_criterion import sample

FUSED = "--criterion fused_label_smoothed_cross_entropy --optimizer fused_adam".split()
STOCK = "--criterion label_smoothed_cross_entropy --optimizer adam".split()


@functools.cache
def configuration(*flags):
    """To be copied: fairseq's parsers take half a second."""
    words = ["no-data", "--arch", "roformer_tiny", *SMALL, "--distributed-world-size", "1", *flags]
    words += ["--label-smoothing", "0.1", "--lr", "1e-2", "--adam-betas", "(0.9, 0.98)", "--weight-decay", "0.01"]
    # epsilon of a size that keeps noise from becoming updates: some gradients are zero but for rounding
    words += ["--adam-eps", "1e-4", "--dropout", "0"]
    args = options.parse_args_and_arch(options.get_training_parser(), words)
    args.tpu = False  # fairseq-train takes --bf16 for a TPU
    return convert_namespace_to_omegaconf(args)


def trainer(own, *flags, seed=1, device="cpu"):
    cfg = copy.deepcopy(configuration(*own, *flags, *(["--cpu"] if device == "cpu" else [])))
    utils.set_torch_seed(seed)
    dictionary = task().target_dictionary
    that = TranslationTask(cfg.task, dictionary, dictionary)
    return Trainer(cfg, that, that.build_model(cfg.model), that.build_criterion(cfg.criterion))


@pytest.mark.parametrize("flags", [["--clip-norm", "0"], ["--share-all-embeddings", "--clip-norm", "1"]])
def test_five_updates_of_fairseqs_trainer_equal_stocks(flags):
    together = [sample(count=3, length=5), sample(count=4, length=7)][: 1 + ("--share-all-embeddings" in flags)]
    ours, stock = (trainer(own, "--update-freq", str(len(together)), *flags) for own in (FUSED, STOCK))
    start = {name: p.detach().clone() for name, p in stock.model.named_parameters()}
    for _ in range(5):
        logs = [each.train_step(together) for each in (ours, stock)]
        for name in ("loss", "nll_loss"):
            assert logs[0][name] == pytest.approx(logs[1][name], rel=1e-4, abs=2e-3)  # rounded to three digits
    moved = dict(stock.model.named_parameters())
    for name, p in ours.model.named_parameters():
        torch.testing.assert_close(p, moved[name], rtol=1e-4, atol=1e-5, msg=name)
    assert (moved["encoder.embed_tokens.weight"] - start["encoder.embed_tokens.weight"]).abs().max() > 1e-2
    logs = [each.valid_step(together[0]) for each in (ours, stock)]
    assert logs[0]["loss"] == pytest.approx(logs[1]["loss"], rel=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision", ["--bf16", "--fp16"])
def test_updates_in_half_precision_are_close_to_stocks(precision, device):
    flags = [precision, "--fp16-init-scale", "4", "--share-all-embeddings"]
    ours, stock = (trainer(own, *flags, device=device) for own in (FUSED, STOCK))
    losses = [[each.train_step([sample()])["loss"] for _ in range(8)] for each in (ours, stock)]
    assert losses[0] == pytest.approx(losses[1], rel=2e-2)
    assert losses[0][-1] < 0.9 * losses[0][0]


def test_a_loss_that_overflows_is_scaled_anew_in_a_training_that_fails_without_memory(monkeypatch):
    monkeypatch.setattr(Trainer, "train_step", Trainer.train_step)  # to be as before afterwards
    worker._fail_without_memory()
    made = trainer(FUSED, "--amp")
    stock, norms = made.clip_grad_norm, [torch.tensor(float("inf"))]
    monkeypatch.setattr(made, "clip_grad_norm", lambda most: norms.pop() if norms else stock(most))
    made.train_step([sample()])
    assert made.get_num_updates() == 1 and not norms


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("precision, own", [("--fp16", FUSED), ("--bf16", STOCK)])
def test_a_training_in_half_precision_goes_on_with_the_parameters_in_fp32(precision, own, device):
    flags = [precision, "--fp16-init-scale", "4", "--share-all-embeddings"]
    whole, part, continued, other = (trainer(own, *flags, seed=seed, device=device) for seed in (1, 1, 2, 3))
    for _ in range(2):
        whole.train_step([sample()])
        part.train_step([sample()])
    state, weights = (copy.deepcopy(kept.state_dict()) for kept in (part.optimizer, part.model))
    continued.model.load_state_dict(weights)
    continued._build_optimizer()
    continued.optimizer.load_state_dict(state)
    continued.set_num_updates(2)
    for each in (whole, continued):
        each.train_step([sample()])
    assert same(continued.model.state_dict(), whole.model.state_dict())
    before = copy.deepcopy(other.model.state_dict())
    other.optimizer.load_state_dict(state)  # of other parameters than this model has
    other.optimizer._sync_fp32_params_to_fp16()
    assert same(other.model.state_dict(), before)


@pytest.mark.parametrize("own", [FUSED, STOCK])
def test_updates_leave_frozen_parameters_as_they_are_and_keep_no_state_of_them(own):
    made = trainer(own, "--only-train", "self_attn")
    start = {name: p.detach().clone() for name, p in made.model.named_parameters()}
    made.train_step([sample(count=3, length=5)])
    moved = {name for name, p in made.model.named_parameters() if not torch.equal(p, start[name])}
    # adding a constant to all keys does not change a softmax: their bias has no gradient but rounding
    assert moved | {name for name in start if "self_attn.k_proj.bias" in name} == {n for n in start if "self_attn" in n}
    assert len(made.optimizer.optimizer.state_dict()["state"]) == sum("self_attn" in name for name in start)


def test_a_shared_parameter_trains_under_each_of_its_names():
    model = trainer(FUSED, "--share-all-embeddings", "--only-train", r"decoder\.embed").model
    assert [name for name, p in model.named_parameters() if p.requires_grad] == ["encoder.embed_tokens.weight"]
