"""The benchmark of training steps: what is really compared, in which precision, for each kind of model."""

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.models.transformer import TransformerModel
from fairseq.modules import MultiheadAttention
from fairseq.optim.adam import FairseqAdam

from fairseq_rope import RoFormerModel
from fairseq_rope.attention import PositionalMultiheadAttention
from pipeline.benchmark.kinds import KINDS
from pipeline.benchmark.models import flops
from pipeline.benchmark.train import OPTIMIZER, Candidate, build_trainer
from pipeline.command import Failure

from .measuring import CPU, DECODE, FLAGS, SPREAD, TRAIN, TRANSLATION, measured


@pytest.mark.slow
def test_train_compares_with_fairseq(tmp_path, capsys):
    archs = ["--archs", "transformer_sinusoidal_tiny", "roformer_tiny"]
    result = measured(tmp_path, capsys, *TRAIN, *archs, "--memory", *FLAGS)
    stock, sinusoidal, roformer = result["rows"]
    assert list(stock)[2:6] == SPREAD and stock["candidate"] == "stock" and stock["times as fast"] == 1
    assert {"target tokens/s", "share of peak", "peak MiB", "peak MiB above the model"} < set(stock)
    # the same parameters and the same function; another one
    assert abs(stock["loss of step 3"] - sinusoidal["loss of step 3"]) < 2e-3
    assert abs(stock["loss of step 3"] - roformer["loss of step 3"]) > 2e-3
    assert roformer["peak MiB"] > roformer["peak MiB above the model"] > 0


@pytest.mark.parametrize("task,arch", [("masked_lm", "mlm_tiny"), ("language_modeling", "lm_tiny")])
def test_train_compares_language_models_with_fairseq(tmp_path, capsys, task, arch):
    """With the criterion and the optimizer of fairseq, a model has the same loss after a step; another one has not."""
    ours, criterion = f"roformer_{arch}", KINDS[task].stock.split(":")[1]
    archs = ["--archs", ours, f"{ours}:{criterion}:adam", "--baseline", f"fairseq_transformer_{arch}:{criterion}:adam"]
    silent = ["--", "--dropout", "0", "--attention-dropout", "0"]
    result = measured(tmp_path, capsys, *TRAIN, "--task", task, *archs, "--length", "20", *silent)
    size = result["batch"]
    assert (size["sentences"], size["source tokens"], size["padding"]) == (5, 100, "0.0%")
    assert size["target tokens"] == (15 if task == "masked_lm" else 100)
    other, fused, plain = (row["loss of step 3"] for row in result["rows"])
    assert abs(fused - plain) < 2e-3 < abs(other - fused)
    assert all(row["source tokens/s"] > 0 for row in result["rows"])


def test_train_compares_fine_tuning_with_fairseq(tmp_path, capsys):
    """The sentences of a batch differ in length, and the share of the peak knows which head is used."""
    archs = ["--archs", "roformer_mlm_tiny", "roformer_mlm_tiny::adam", "--baseline"]
    stock = "fairseq_transformer_mlm_tiny:sentence_prediction:adam"
    silent = ["--", "--dropout", "0", "--attention-dropout", "0"]
    result = measured(tmp_path, capsys, *TRAIN, "--task", "sentence_prediction", *archs, stock, *silent)
    size = result["batch"]
    assert size["sentences"] == size["target tokens"] == 4 and float(size["padding"].rstrip("%")) > 25
    other, ours, plain = (row["loss of step 3"] for row in result["rows"])
    assert abs(ours - plain) < 2e-3 < abs(other - ours)


def test_a_batch_of_examples_begins_with_the_special_symbol_and_is_in_no_order_of_lengths():
    from pipeline.benchmark.batch import dictionary, make_examples

    tokens = make_examples(dictionary(100), 0, 32, 0)["net_input"]["src_tokens"]
    words = dictionary(100)
    lengths = tokens.ne(words.pad()).sum(dim=1)
    assert tokens[:, 0].eq(words.bos()).all() and lengths.diff().sign().unique().tolist() == [-1, 0, 1]


@pytest.mark.parametrize(
    "words,message",
    [
        (["--archs", "roformer_tiny"], "roformer_tiny in 'roformer_tiny' has no head of classification"),
        (["--criterion", "masked_lm"], "the criterion 'masked_lm' in 'roformer_mlm_tiny' does not fit --task"),
        (["--length", "600"], "roformer_mlm_tiny takes at most 512 tokens, not 600: give a smaller --length"),
    ],
)
def test_what_cannot_be_fine_tuned_is_said_in_one_line(tmp_path, capsys, words, message):
    baseline = ["--task", "sentence_prediction", "--archs", "roformer_mlm_tiny", "--baseline", "roformer_mlm_tiny"]
    with pytest.raises(Failure, match=message):
        measured(tmp_path, capsys, *TRAIN, *baseline, *words)


def test_the_products_of_a_classification_are_those_of_its_head():
    arch = ["roformer_mlm_tiny", "fairseq_transformer_mlm_tiny:sentence_prediction"]
    masked, *tuned = (
        flops(build_trainer(Candidate.parse(name, KINDS[task]), 100, [], CPU).model)
        for name, task in zip([arch[0], *arch], ["masked_lm", "sentence_prediction", "sentence_prediction"])
    )
    width = 128  # and 101 types, with the mask
    assert masked["target"] == 2 * width * (width + 101) and tuned[0] == tuned[1]
    assert tuned[0] == {"source": masked["source"], "target": 2 * width * (width + 2)}


@pytest.mark.parametrize("precision", ["bf16", "autocast"])
def test_train_runs_in_half_precision(tmp_path, capsys, precision):
    archs = ["--archs", "transformer_sinusoidal_tiny", "stock@fp32"]
    result = measured(tmp_path, capsys, *TRAIN, *archs, "--precision", precision, *FLAGS)
    stock, ours, full = result["rows"]
    assert [row["precision"] for row in result["rows"]] == [precision, precision, "fp32"]
    for row in (stock, ours):
        assert abs(row["loss of step 3"] - full["loss of step 3"]) < 0.05


@pytest.mark.parametrize(
    "precision,parameters,logits",
    [("fp32", "float32", "float32"), ("bf16", "bfloat16", "bfloat16"), ("autocast", "float32", "bfloat16")],
)
def test_precisions_are_what_they_say(precision, parameters, logits):
    candidate = Candidate.parse(f"stock@{precision}", TRANSLATION)  # its criterion has logits
    trainer = build_trainer(candidate, 100, FLAGS[1:], CPU)
    seen = []
    trainer.model.decoder.output_projection.register_forward_hook(lambda *args: seen.append(args[2].dtype))
    from pipeline.benchmark.batch import dictionary, make_batch

    trainer.train_step([make_batch(dictionary(100), 50)])
    assert next(trainer.model.parameters()).dtype == getattr(torch, parameters) and seen == [getattr(torch, logits)]


def test_stock_is_fairseq_and_ours_is_not():
    stock, ours = (
        build_trainer(Candidate.parse(name, TRANSLATION), 100, FLAGS[1:], CPU) for name in ("stock", "roformer_tiny")
    )
    assert type(stock.model) is TransformerModel and type(stock.optimizer) is FairseqAdam
    assert type(stock.criterion) is LabelSmoothedCrossEntropyCriterion and stock.criterion.eps == 0.1
    assert type(stock.model.decoder.layers[0].self_attn) is MultiheadAttention
    assert type(ours.model) is RoFormerModel
    assert type(ours.model.decoder.layers[0].self_attn) is PositionalMultiheadAttention
    assert ours.cfg.criterion._name == TRANSLATION.criterion and ours.cfg.optimizer._name == OPTIMIZER
    assert stock.cfg.optimization.clip_norm == 0 and stock.cfg.lr_scheduler._name == "inverse_sqrt"


def test_a_candidate_names_its_parts():
    assert Candidate.parse("roformer_tiny:cross_entropy:sgd@bf16", TRANSLATION)[2:] == (
        *("roformer_tiny", "cross_entropy", "sgd", "bf16", False),
    )
    assert Candidate.parse("roformer_tiny::sgd+compile", TRANSLATION)[2:] == (
        *("roformer_tiny", TRANSLATION.criterion, "sgd", "fp32", True),
    )
    assert Candidate.parse("roformer_mlm_tiny", KINDS["masked_lm"])[3] == "fused_masked_lm"


@pytest.mark.parametrize("what", [TRAIN, DECODE], ids=["train", "decode"])
def test_a_profile_names_the_operators_of_every_candidate(tmp_path, capsys, what):
    archs = ["--archs", "roformer_tiny", *(["--precisions", "fp32", "--sentences", "2"] if what is DECODE else [])]
    result = measured(tmp_path, capsys, *what, *archs, "--profile", *FLAGS)
    named = [row["candidate"] for row in result["rows"] if "CTranslate2" not in row["candidate"]]
    assert len(result["profile"]) == len(named)
    for shares in result["profile"].values():
        assert any(name.startswith("aten::") for name in shares)
        assert sum(float(share.rstrip("%")) for share in shares.values()) == pytest.approx(100, abs=1)
