"""With the fused loss and optimizer, fairseq's trainer makes the updates that it makes with its own."""

import pytest
import torch
from fairseq import options, utils
from fairseq.trainer import Trainer

from pipeline.benchmark.batch import dictionary, make_batch
from pipeline.benchmark.models import configure, make_task
from pipeline.training import worker

from ..commands import SMALL, fairseq, parameters
from ..helpers import same


def trainer(fused, flags, seed=1, bf16=False):
    names = ["fused_label_smoothed_cross_entropy", "fused_adam"] if fused else ["label_smoothed_cross_entropy", "adam"]
    own = ["--arch", "roformer_tiny", "--criterion", names[0], "--optimizer", names[1], *SMALL, "--cpu"]
    own += ["--label-smoothing", "0.1", "--lr", "1e-2", "--adam-betas", "(0.9, 0.98)", "--distributed-world-size", "1"]
    # of a size that keeps noise from becoming updates: some gradients are zero but for rounding
    own += ["--adam-eps", "1e-4", "--weight-decay", "0.01", "--dropout", "0"]
    cfg = configure(options.get_training_parser(), [*own, *flags], bf16)
    utils.set_torch_seed(seed)
    that = make_task(cfg, dictionary(50))
    return Trainer(cfg, that, that.build_model(cfg.model), that.build_criterion(cfg.criterion))


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("batches", [1, 2])
@pytest.mark.parametrize("clip_norm", [0.0, 1.0])
def test_five_updates_of_fairseqs_trainer_equal_stocks(share, batches, clip_norm):
    flags = ["--update-freq", batches, "--clip-norm", clip_norm, *(["--share-all-embeddings"] if share else [])]
    words = dictionary(50)
    together = [make_batch(words, sentences=3 + i, length=5 + 2 * i) for i in range(batches)]
    ours, stock = (trainer(fused, [str(flag) for flag in flags]) for fused in (True, False))
    start = {name: p.detach().clone() for name, p in stock.model.named_parameters()}
    for _ in range(5):
        logs = [each.train_step(together) for each in (ours, stock)]
        for name in ("loss", "nll_loss"):
            assert logs[0][name] == pytest.approx(logs[1][name], rel=1e-4, abs=2e-3)  # rounded to three digits
    moved = dict(stock.model.named_parameters())
    for name, p in ours.model.named_parameters():
        torch.testing.assert_close(p, moved[name], rtol=1e-4, atol=1e-5, msg=name)
    assert (moved["encoder.embed_tokens.weight"] - start["encoder.embed_tokens.weight"]).abs().max() > 1e-2


def test_updates_in_bfloat16_are_close_to_stocks():
    batch = make_batch(dictionary(50), sentences=5, length=6)
    ours, stock = (trainer(fused, ["--share-all-embeddings"], bf16=True) for fused in (True, False))
    losses = [[each.train_step([batch])["loss"] for _ in range(8)] for each in (ours, stock)]
    assert losses[0] == pytest.approx(losses[1], rel=2e-2)
    assert losses[0][-1] < 0.9 * losses[0][0]


def test_a_loss_that_overflows_is_scaled_anew_in_a_training_that_fails_without_memory(monkeypatch):
    monkeypatch.setattr(Trainer, "train_step", Trainer.train_step)  # to be as before afterwards
    worker._fail_without_memory()
    made = trainer(True, ["--amp"])
    stock, norms = made.clip_grad_norm, [torch.tensor(float("inf"))]
    monkeypatch.setattr(made, "clip_grad_norm", lambda most: norms.pop() if norms else stock(most))
    batch = make_batch(dictionary(50), sentences=3, length=5)
    made.train_step([batch])
    assert made.get_num_updates() == 1 and not norms


@pytest.mark.parametrize("precision", ["--fp16", "--bf16"])
@pytest.mark.parametrize("optimizer", ["fused_adam", "adam"])
def test_a_training_in_half_precision_goes_on_with_the_parameters_in_fp32(precision, optimizer):
    flags, fused = [precision, "--fp16-init-scale", "4", "--share-all-embeddings"], optimizer == "fused_adam"
    batch = make_batch(dictionary(50), sentences=3, length=5)
    whole, part, continued, other = (trainer(fused, flags, seed) for seed in (1, 1, 2, 3))
    for _ in range(2):
        whole.train_step([batch])
        part.train_step([batch])
    state, weights = part.optimizer.state_dict(), part.model.state_dict()
    continued.model.load_state_dict(weights)
    continued._build_optimizer()
    continued.optimizer.load_state_dict(state)
    continued.set_num_updates(2)
    for each in (whole, continued):
        each.train_step([batch])
    assert same(continued.model.state_dict(), whole.model.state_dict())
    before = other.model.state_dict()
    other.optimizer.load_state_dict(state)  # of other parameters than this model has
    other.optimizer._sync_fp32_params_to_fp16()
    assert same(other.model.state_dict(), before)


def test_validation_of_fairseqs_trainer_equals_stocks():
    batch = make_batch(dictionary(50), sentences=3, length=6)
    logs = [trainer(fused, []).valid_step(batch) for fused in (True, False)]
    assert logs[0]["loss"] == pytest.approx(logs[1]["loss"], rel=1e-5)


@pytest.mark.slow
def test_it_trains_and_resumes_through_the_command_line_as_stock_does(data, tmp_path):
    common = ["--arch", "roformer_tiny", *SMALL, "--share-all-embeddings", "--lr", "0.005", "--max-tokens", "600"]
    common += ["--adam-eps", "1e-4", "--label-smoothing", "0.1", "--no-epoch-checkpoints", "--seed", "3"]
    common += ["--dropout", "0", "--save-interval-updates", "2", "--log-format", "json"]
    fused = ["--criterion", "fused_label_smoothed_cross_entropy", "--optimizer", "fused_adam"]
    stock = ["--criterion", "label_smoothed_cross_entropy", "--optimizer", "adam"]
    for name, own, updates in (("parts", fused, 2), ("parts", fused, 4), ("stock", stock, 4)):
        fairseq("train", data, *common, *own, "--max-update", updates, "--save-dir", tmp_path / name)
    parts, whole = (parameters(tmp_path / name / "checkpoint_last.pt") for name in ("parts", "stock"))
    assert parts.keys() == whole.keys()
    for name, value in whole.items():
        torch.testing.assert_close(parts[name], value, rtol=1e-4, atol=1e-5, msg=name)
