"""The fused loss is fairseq's label-smoothed cross entropy: loss, logs, gradients, updates."""

import argparse

import pytest
import torch
from fairseq import options, utils
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    label_smoothed_nll_loss,
)
from fairseq.models.fairseq_encoder import FairseqEncoder
from fairseq.models.transformer import TransformerDecoder, TransformerModel
from fairseq.trainer import Trainer
from torch import nn

from fairseq_rope.output_projection import output_weight
from fairseq_rope.training import criterion
from fairseq_rope.training.criterion import (
    FusedLabelSmoothedCrossEntropyCriterion,
    linear_label_smoothed_nll_loss,
)
from pipeline.benchmark.batch import dictionary, make_batch
from pipeline.benchmark.models import configure, make_task

from ..commands import SMALL, fairseq, parameters
from ..helpers import DEVICES, PAD, build, build_with, decoder_input, pad, sentences, task

CRITERION = LabelSmoothedCrossEntropyCriterion
FP64 = dict(rtol=1e-10, atol=1e-12)
CLOSE = dict(rtol=1e-5, atol=1e-6)
"""fp32 sums over hundreds of tokens, in a different order."""


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
    assert_same(results(criterion._LinearLoss.apply, *inputs), results(stock_loss, *inputs), **tolerance)
    assert not results(criterion._LinearLoss.apply, *inputs)[2][inputs[2].eq(PAD)].any()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", [1, 2, 4, 5, 11, 12, 13, 100])
def test_chunks_change_nothing(rows, device, monkeypatch):
    """One chunk, several equal ones, many, and a last small one."""
    monkeypatch.setattr(criterion, "CHUNK", {"cpu": rows * 37, "cuda": rows * 37})
    inputs = (*tensors(12, 37, device=device), 0.1, PAD)
    assert_same(results(linear_label_smoothed_nll_loss, *inputs), results(stock_loss, *inputs), **FP64)
    inputs = (*tensors(12, 37, device=device, padded=False), 0.1)
    assert_same(results(linear_label_smoothed_nll_loss, *inputs), results(stock_loss, *inputs), **FP64)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 127, 128, 129, 191, 192, 193, 255, 256, 257, 300])
def test_every_number_of_tokens(length, device, monkeypatch):
    monkeypatch.setattr(criterion, "CHUNK", {"cpu": 64 * 50, "cuda": 64 * 50})
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
    monkeypatch.setattr(criterion, "CHUNK", {"cpu": chunk * 300, "cuda": chunk * 300})
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


def sample(device="cpu", length=7, count=4):
    target = pad(sentences(count, length, seed=3), right=2)
    target[1, length // 2 :] = PAD
    source = sentences(count, 9)
    source[1:, :3] = PAD
    net_input = {
        "src_tokens": source,
        "src_lengths": source.ne(PAD).sum(1),
        "prev_output_tokens": decoder_input(target),
    }
    net_input["prev_output_tokens"][target.eq(PAD)] = PAD
    batch = {"net_input": net_input, "target": target, "ntokens": int(target.ne(PAD).sum()), "nsentences": count}
    return utils.apply_to_sample(lambda x: x.to(device), batch)


def criteria(**changes):
    arguments = {"sentence_avg": False, "label_smoothing": 0.1, **changes}
    return [cls(task(), **arguments) for cls in (FusedLabelSmoothedCrossEntropyCriterion, CRITERION)]


def outcome(loss_function, model, batch, **kwargs):
    """What a criterion returns, and the gradients of its loss."""
    model.zero_grad()
    loss, sample_size, log = loss_function(model, batch, **kwargs)
    loss.sum().backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return loss.detach(), sample_size, log, gradients


def assert_as_stock(model, batch, kwargs=None, tolerance=CLOSE, functions=None, **changes):
    ours, stock = (outcome(function, model, batch, **(kwargs or {})) for function in functions or criteria(**changes))
    assert ours[2].keys() == stock[2].keys() and ours[3].keys() == stock[3].keys()
    assert ours[1] == stock[1]
    torch.testing.assert_close(ours[0], stock[0], **tolerance)
    for name, value in stock[2].items():
        torch.testing.assert_close(torch.as_tensor(ours[2][name]), torch.as_tensor(value), **tolerance, msg=name)
    assert_same_gradients(ours[3], stock[3], tolerance["rtol"])
    return ours


def assert_same_gradients(actual, expected, tolerance):
    """Up to ``tolerance`` times the largest of the model: some are zero but for rounding."""
    largest = max(float(gradient.abs().max()) for gradient in expected.values())
    for name, gradient in expected.items():
        assert actual[name].dtype == gradient.dtype
        torch.testing.assert_close(actual[name], gradient, rtol=0, atol=tolerance * (largest + 1e-6), msg=name)


@pytest.fixture
def fused(monkeypatch):
    """How often the fused function ran."""
    calls = []
    function = criterion.linear_label_smoothed_nll_loss

    def counted(*args):
        calls.append(1)
        return function(*args)

    monkeypatch.setattr(criterion, "linear_label_smoothed_nll_loss", counted)
    return calls


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("arch", ["roformer_tiny", "transformer_learned_tiny", "fairseq_transformer_tiny"])
@pytest.mark.parametrize("share", [True, False])
def test_a_models_loss_and_gradients_equal_stocks(arch, share, device, fused):
    model = build(arch, share_all_embeddings=share).to(device)
    assert_as_stock(model, sample(device))
    assert fused


@pytest.mark.parametrize("changes", [dict(sentence_avg=True), dict(label_smoothing=0.0), dict(ignore_prefix_size=3)])
def test_the_options_are_fairseqs(changes, fused):
    assert_as_stock(build("roformer_tiny"), sample(), **changes)
    assert fused


def test_every_token_behind_an_ignored_prefix_may_be_missing():
    assert assert_as_stock(build("roformer_tiny"), sample(), ignore_prefix_size=9)[0] == 0


@pytest.mark.parametrize("length", [1, 62, 63, 64, 65, 126])
def test_batches_of_every_length_in_a_model(length):
    model = build("roformer_tiny", max_target_positions=200)
    assert_as_stock(model, sample(length=length, count=2))


def test_accuracy_and_losses_of_single_tokens_are_fairseqs_own(fused):
    model = build("roformer_tiny")
    log = assert_as_stock(model, sample(), report_accuracy=True)[2]
    assert log["total"] == sample()["ntokens"] and log["n_correct"] <= log["total"]
    loss = assert_as_stock(model, sample(), kwargs={"reduce": False})[0]
    assert loss.numel() == sample()["target"].numel()
    assert not fused


def test_an_adaptive_softmax_is_fairseqs_own(fused):
    model = build_with(
        "rope",
        share_all_embeddings=False,
        adaptive_softmax_cutoff="10,20",
        adaptive_softmax_dropout=0.0,
        adaptive_softmax_factor=4.0,
    )
    assert output_weight(model) is None
    with torch.no_grad():  # through which fairseq's criterion cannot go back either
        ours, stock = (function(model, sample())[0] for function in criteria())
    assert torch.equal(ours, stock)
    assert not fused


def test_an_output_layer_with_a_bias_is_fairseqs_own(fused):
    model = build("roformer_tiny", share_all_embeddings=False)
    model.decoder.output_projection = nn.Linear(32, model.decoder.output_projection.out_features)
    assert_as_stock(model, sample())
    assert not fused


class WithoutFeatures(TransformerModel):
    """As some of fairseq's models, whose forward pass has no ``features_only``."""

    def forward(self, src_tokens, src_lengths, prev_output_tokens):
        return super().forward(src_tokens, src_lengths, prev_output_tokens)


def test_a_model_that_cannot_give_its_features_is_fairseqs_own(fused):
    model = build("fairseq_transformer_tiny")
    model.__class__ = WithoutFeatures
    assert_as_stock(model, sample())
    assert not fused


def test_an_lstm_is_fairseqs_own(fused):
    size = dict(encoder_embed_dim=16, encoder_hidden_size=16, decoder_embed_dim=16, decoder_hidden_size=16)
    name = "label_smoothed_cross_entropy"
    model = build("lstm", share_all_embeddings=False, criterion=name, decoder_out_embed_dim=16, **size)
    assert isinstance(model.encoder, FairseqEncoder) and not isinstance(model.decoder, TransformerDecoder)
    assert_as_stock(model, sample())
    assert not fused


def test_checkpointed_activations_change_nothing(fused):
    plain, checkpointed = (build("roformer_tiny", checkpoint_activations=value) for value in (False, True))
    checkpointed.load_state_dict(plain.state_dict())
    expected = outcome(criteria()[1], plain, sample())
    actual = assert_as_stock(checkpointed.train().eval(), sample())
    assert_same_gradients(actual[3], expected[3], CLOSE["rtol"])
    assert fused


def test_validation_has_the_same_loss_and_no_graph():
    model = build("roformer_tiny")
    with torch.no_grad():
        ours, stock = (function(model, sample()) for function in criteria())
    torch.testing.assert_close(ours[0], stock[0], **CLOSE)
    torch.testing.assert_close(ours[2]["nll_loss"], stock[2]["nll_loss"], **CLOSE)
    assert not ours[0].requires_grad


# bfloat16 has eight bits, and the logits are rounded to them in both
HALF = dict(rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("device", DEVICES)
def test_a_model_in_bfloat16_is_close_to_stock(device):
    assert_as_stock(build("roformer_tiny").to(device, torch.bfloat16), sample(device), tolerance=HALF)


@pytest.mark.parametrize("device", DEVICES)
def test_under_autocast_a_model_is_close_to_stock(device):
    model = build("roformer_tiny").to(device)
    functions = criteria()
    with torch.autocast(device, dtype=torch.bfloat16):
        ours, stock = (function(model, sample(device)) for function in functions)
    torch.testing.assert_close(ours[0], stock[0], rtol=1e-3, atol=0)
    gradients = []
    for loss, *_ in (ours, stock):
        model.zero_grad()
        loss.backward()
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters()})
    assert_same_gradients(*gradients, HALF["rtol"])


# in fairseq's trainer


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


def test_the_configuration_is_fairseqs():
    parser = argparse.ArgumentParser()
    FusedLabelSmoothedCrossEntropyCriterion.add_args(parser)
    expected = argparse.ArgumentParser()
    CRITERION.add_args(expected)
    assert parser.format_help() == expected.format_help()
