"""The fused criterion is fairseq's label-smoothed cross entropy: loss, logs, gradients."""

import pytest
import torch
from fairseq import utils
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion
from fairseq.models.transformer import TransformerModel
from torch import nn

from fairseq_rope.interception import is_unchanged
from fairseq_rope.output_projection import tell_once
from fairseq_rope.training import criterion, masked_criterion
from fairseq_rope.training.criterion import FusedLabelSmoothedCrossEntropyCriterion

from ..helpers import (
    DEVICES,
    PAD,
    STOCK_EVALUATES,
    VOCABULARY,
    build,
    build_with,
    decoder_input,
    override,
    pad,
    sentences,
    task,
)

CLOSE = dict(rtol=1e-5, atol=1e-6)
"""fp32 sums over hundreds of tokens, in a different order."""


def sample(device="cpu", length=7, count=4):
    target = pad(sentences(count, length, seed=3), right=2)
    target[1, length // 2 :] = PAD
    source = sentences(count, 9)
    source[1:, :3] = PAD
    previous = decoder_input(target).masked_fill(target.eq(PAD), PAD)
    net_input = {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1), "prev_output_tokens": previous}
    batch = {"net_input": net_input, "target": target, "ntokens": int(target.ne(PAD).sum()), "nsentences": count}
    return utils.apply_to_sample(lambda x: x.to(device), batch)


def criteria(**changes):
    """Ours and fairseq's."""
    arguments = {"sentence_avg": False, "label_smoothing": 0.1, **changes}
    kinds = FusedLabelSmoothedCrossEntropyCriterion, LabelSmoothedCrossEntropyCriterion
    return [kind(task(), **arguments) for kind in kinds]


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
    calls, function = [], criterion.linear_label_smoothed_nll_loss
    for module in (criterion, masked_criterion):
        monkeypatch.setattr(module, function.__name__, lambda *args, **kw: calls.append(1) or function(*args, **kw))
    return calls


STOCK_TINY = pytest.param("fairseq_transformer_tiny", marks=STOCK_EVALUATES)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("arch", ["roformer_tiny", "transformer_learned_tiny", STOCK_TINY])
def test_a_models_loss_and_gradients_equal_stocks(arch, device, fused):
    for share in (True, False):
        assert_as_stock(build(arch, share_all_embeddings=share).to(device), sample(device))
    assert len(fused) == 2


def test_the_options_are_fairseqs(fused):
    model = build("roformer_tiny")
    for changes in (dict(sentence_avg=True), dict(label_smoothing=0.0), *({"ignore_prefix_size": n} for n in (3, -1))):
        assert_as_stock(model, sample(), **changes)
    assert assert_as_stock(model, sample(), ignore_prefix_size=9)[0] == 0  # no token is behind it
    assert len(fused) == 5


def test_accuracy_and_losses_of_single_tokens_are_fairseqs_own(fused):
    model = build("roformer_tiny")
    log = assert_as_stock(model, sample(), report_accuracy=True)[2]
    assert log["total"] == sample()["ntokens"] and log["n_correct"] <= log["total"]
    loss = assert_as_stock(model, sample(), kwargs={"reduce": False})[0]
    assert loss.numel() == sample()["target"].numel()
    assert not fused


def with_a_hook(part):
    """Changes a model so that the output of a part of it is a quarter."""

    def change(model):
        quarter = lambda _, __, out: (out[0] / 4, *out[1:]) if isinstance(out, tuple) else out / 4  # noqa: E731
        model.get_submodule(part).register_forward_hook(quarter)

    return change


def of_a_subclass(method):
    return lambda model: override(model, method)


def with_another_projection(model):
    projection = model.decoder.output_projection
    stock = projection.forward
    projection.forward = lambda features: stock(features) / 4


def with_an_output_layer(model):
    model.decoder.output_layer = lambda features: model.decoder.output_projection(features) / 4


OVERRIDDEN = ("forward", "get_normalized_probs", "get_targets", "decoder.forward", "decoder.get_normalized_probs")
CHANGES = {
    **{f"hook on {part}": with_a_hook(part) for part in ("decoder.output_projection", "decoder", "")},
    **{method: of_a_subclass(method) for method in OVERRIDDEN},
    "output_projection.forward": with_another_projection,
    "output_layer": with_an_output_layer,
    "bias": lambda model: setattr(model.decoder, "output_projection", nn.Linear(32, VOCABULARY)),
}


def test_a_model_with_other_logits_probabilities_or_targets_is_fairseqs_own(fused):
    for name, change in CHANGES.items():
        model = build("roformer_tiny", share_all_embeddings=False)
        before = criteria()[1](model, sample())[0]
        change(model)
        assert float(assert_as_stock(model, sample())[0]) != pytest.approx(float(before)), name
        assert not fused, name


def test_what_lacks_a_method_is_not_fairseqs_own():
    """As the model that fairseq's composite loss makes."""
    assert is_unchanged(build("roformer_tiny"), "get_targets") and not is_unchanged(nn.Linear(1, 1), "get_targets")


class WithoutFeatures(TransformerModel):
    """As some of fairseq's models, whose forward pass has no ``features_only``."""

    def forward(self, src_tokens, src_lengths, prev_output_tokens):
        return super().forward(src_tokens, src_lengths, prev_output_tokens)


@STOCK_EVALUATES
def test_other_models_and_an_adaptive_softmax_are_fairseqs_own_which_the_log_says_once(fused, caplog):
    tell_once.cache_clear()
    caplog.set_level("INFO", logger="fairseq_rope")
    size = dict(encoder_embed_dim=16, encoder_hidden_size=16, decoder_embed_dim=16, decoder_hidden_size=16)
    name = "label_smoothed_cross_entropy"
    lstm = build("lstm", share_all_embeddings=False, criterion=name, decoder_out_embed_dim=16, **size)
    without = build("fairseq_transformer_tiny")
    without.__class__ = WithoutFeatures
    for model in (lstm, without):
        assert_as_stock(model, sample())
    adaptive = dict(adaptive_softmax_cutoff="10,20", adaptive_softmax_dropout=0.0, adaptive_softmax_factor=4.0)
    model = build_with("rope", share_all_embeddings=False, **adaptive)
    with torch.no_grad():  # through which fairseq's criterion cannot go back either
        ours, stock = (function(model, sample())[0] for function in criteria())
    assert torch.equal(ours, stock) and not fused
    assert sum("fairseq's own" in line for line in caplog.messages) == 1


# bfloat16 has eight bits, and the logits are rounded to them in both
HALF = dict(rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("device", DEVICES)
def test_in_bfloat16_and_under_autocast_a_model_is_close_to_stock(device):
    assert_as_stock(build("roformer_tiny").to(device, torch.bfloat16), sample(device), tolerance=HALF)
    model, losses, gradients = build("roformer_tiny").to(device), [], []
    for function in criteria():
        model.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16):
            loss, *_ = function(model, sample(device))
        loss.backward()
        losses.append(loss.detach())
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters()})
    torch.testing.assert_close(*losses, rtol=1e-3, atol=0)
    assert_same_gradients(*gradients, HALF["rtol"])
