"""The benchmark of training steps: what is really compared, in which precision, for each kind of model."""

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.models.transformer import TransformerModel
from fairseq.modules import MultiheadAttention
from fairseq.optim.adam import FairseqAdam

from fairseq_rope import RoFormerModel
from pipeline.benchmark.command import main
from pipeline.benchmark.models import dictionary, make_batch
from pipeline.benchmark.train import Candidate, build_trainer
from pipeline.command import Failure
from pipeline.tasks import TASKS

from .measuring import FLAGS, SPREAD, TRAIN, measured, options

SILENT = ["--", "--dropout", "0", "--attention-dropout", "0"]


def test_train_compares_with_fairseq(tmp_path, capsys, monkeypatch):
    archs = ["--archs", "transformer_sinusoidal_tiny", "roformer_tiny"]
    result = measured(tmp_path, capsys, monkeypatch, *TRAIN, *archs, *FLAGS)
    stock, sinusoidal, roformer = result["rows"]
    assert list(stock)[2:6] == SPREAD and stock["candidate"] == "stock" and stock["times as fast"] == 1
    # the same parameters and the same function; another one
    assert abs(stock["loss of step 3"] - sinusoidal["loss of step 3"]) < 2e-3
    assert abs(stock["loss of step 3"] - roformer["loss of step 3"]) > 2e-3


@pytest.mark.parametrize(
    "task,kind,size",
    [
        ("masked_lm", "mlm", {"sentences": 5, "source tokens": 100, "target tokens": 15, "padding": "0.0%"}),
        ("language_modeling", "lm", {"sentences": 5, "source tokens": 100, "target tokens": 100, "padding": "0.0%"}),
        ("sentence_prediction", "mlm", {"sentences": 5, "source tokens": 100, "target tokens": 5, "padding": "0.0%"}),
    ],
)
def test_a_language_model_has_fairseqs_loss_and_its_own_encoding(tmp_path, capsys, monkeypatch, task, kind, size):
    """After a step; with fairseq's criterion and optimizer too, and another model has another loss."""
    ours, (_, stock) = f"roformer_{kind}_tiny", TASKS[task].stock.split(":", 1)
    archs = ["--archs", ours, f"{ours}:{stock}"]
    assert Candidate.parse("stock", task, size="tiny").arch == f"fairseq_transformer_{kind}_tiny"
    result = measured(tmp_path, capsys, monkeypatch, *TRAIN, "--task", task, "--length", "20", *archs, *SILENT)
    other, fused, plain = (row["loss of step 3"] for row in result["rows"])
    assert abs(fused - plain) < 2e-3 < abs(other - fused) and result["batch"] == size
    assert all(row["source tokens/s"] > 0 for row in result["rows"])


@pytest.mark.parametrize(
    "precision,parameters,logits",
    [("fp32", "float32", "float32"), ("bf16", "bfloat16", "bfloat16"), ("autocast", "float32", "bfloat16")],
)
def test_precisions_are_what_they_say_and_compute_the_same(precision, parameters, logits):
    losses, seen = [], []
    for name in ("stock@fp32", f"stock@{precision}"):  # its criterion has logits
        trainer = build_trainer(Candidate.parse(name, "translation"), options("translation", *FLAGS[1:]))
        trainer.model.decoder.output_projection.register_forward_hook(lambda *args: seen.append(args[2].dtype))
        losses.append(float(trainer.train_step([make_batch("translation", dictionary(100), 50)])["loss"]))
    assert next(trainer.model.parameters()).dtype == getattr(torch, parameters) and seen[1] == getattr(torch, logits)
    assert losses[1] == pytest.approx(losses[0], abs=0.05)


def test_stock_is_fairseq_and_ours_has_the_criterion_and_optimizer_of_the_recipe():
    stock, ours = (
        build_trainer(Candidate.parse(name, "translation"), options("translation", *FLAGS[1:]))
        for name in ("stock", "roformer_tiny")
    )
    assert type(stock.model) is TransformerModel and type(stock.optimizer) is FairseqAdam
    assert type(stock.criterion) is LabelSmoothedCrossEntropyCriterion and stock.criterion.eps == 0.1
    assert type(stock.model.decoder.layers[0].self_attn) is MultiheadAttention
    assert type(ours.model) is RoFormerModel
    assert ours.cfg.criterion._name == "fused_label_smoothed_cross_entropy"
    assert ours.cfg.optimizer._name == "fused_adam"
    assert stock.cfg.optimization.clip_norm == 0 and stock.cfg.lr_scheduler._name == "inverse_sqrt"


def test_a_file_is_replaced_by_the_same_measurement_alone(tmp_path, capsys, monkeypatch):
    words = [*TRAIN, "--archs", "roformer_tiny", "--baseline", "roformer_tiny"]
    file = tmp_path / "benchmark-train-cpu.json"
    measured(tmp_path, capsys, monkeypatch, *words, *FLAGS)
    before = (tmp_path / "out.json").rename(file).read_bytes()
    with pytest.raises(Failure, match=file.name):
        main([*words, "--sentences", "2", "--out", str(tmp_path), *FLAGS])
    assert file.read_bytes() == before
    main([*words, "--out", str(tmp_path), *FLAGS])
    assert file.read_bytes() != before


@pytest.mark.long
def test_memory_is_that_of_the_steps_and_a_profile_names_the_operators(tmp_path, capsys, monkeypatch):
    words = [*TRAIN, "--archs", "roformer_tiny", "--baseline", "roformer_tiny", "--memory", "--profile"]
    (row,) = measured(tmp_path, capsys, monkeypatch, *words, *FLAGS)["rows"]
    assert row["peak MiB"] > row["peak MiB above the model"] > 0
