"""The fused criterion is fairseq's label-smoothed cross entropy: loss, logs, gradients."""

import argparse

import pytest
import torch
from fairseq import utils
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.models.fairseq_encoder import FairseqEncoder
from fairseq.models.transformer import TransformerDecoder, TransformerModel
from torch import nn

from fairseq_rope.output_projection import output_weight
from fairseq_rope.training import criterion
from fairseq_rope.training.criterion import FusedLabelSmoothedCrossEntropyCriterion

from ..helpers import DEVICES, PAD, build, build_with, decoder_input, override, pad, sentences, task

CRITERION = LabelSmoothedCrossEntropyCriterion
CLOSE = dict(rtol=1e-5, atol=1e-6)
"""fp32 sums over hundreds of tokens, in a different order."""


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


@pytest.mark.parametrize(
    "changes",
    [dict(sentence_avg=True), dict(label_smoothing=0.0), dict(ignore_prefix_size=3), dict(ignore_prefix_size=-1)],
)
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


def scaled(module, inputs, output):
    return output * 0.25


@pytest.mark.parametrize("part", ["decoder.output_projection", "decoder", ""])
def test_hooks_hear_and_change_the_logits(part, fused):
    model = build("roformer_tiny")
    without = criteria()[1](model, sample())[0]
    hear = scaled if part == "decoder.output_projection" else lambda module, inputs, output: (output[0] / 4, output[1])
    model.get_submodule(part).register_forward_hook(hear)
    assert float(assert_as_stock(model, sample())[0]) != pytest.approx(float(without))
    assert not fused


def test_an_output_layer_of_the_users_own_is_called(fused):
    model = build("roformer_tiny")
    model.decoder.output_layer = lambda features: model.decoder.output_projection(features) * 0.25
    assert_as_stock(model, sample())
    assert not fused


@pytest.mark.parametrize(
    "method", ["forward", "get_normalized_probs", "get_targets", "decoder.forward", "decoder.get_normalized_probs"]
)
def test_a_subclass_with_other_logits_probabilities_or_targets_is_fairseqs_own(method, fused):
    model = build("roformer_tiny")
    without = criteria()[1](model, sample())[0]
    fused.clear()
    override(model, method)
    assert float(assert_as_stock(model, sample())[0]) != pytest.approx(float(without))
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


def test_the_configuration_is_fairseqs():
    parser = argparse.ArgumentParser()
    FusedLabelSmoothedCrossEntropyCriterion.add_args(parser)
    expected = argparse.ArgumentParser()
    CRITERION.add_args(expected)
    assert parser.format_help() == expected.format_help()
