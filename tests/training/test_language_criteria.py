"""The fused losses of language models are fairseq's: the causal one's, and the masked one's over masked tokens."""

import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss
from fairseq.distributed import ModuleProxyWrapper
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from fairseq_rope.training import linear_loss
from fairseq_rope.training.linear_loss import linear_label_smoothed_nll_loss
from fairseq_rope.training.masked_criterion import FusedMaskedLmLoss

from ..helpers import BOS, DEVICES, PAD, build, override, pad, sentences, task
from .test_criterion import CLOSE, assert_as_stock, criteria, fused, outcome, sample
from .test_linear_loss import FP64, assert_same, stock_loss, tensors

__all__ = ["fused"]  # a fixture


@pytest.fixture
def one_process_group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


MLM = ["roformer_mlm_tiny", "transformer_linear_learned_mlm_tiny", "fairseq_transformer_mlm_tiny"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("rows", [2, 100])
def test_the_bias_of_the_projection_takes_part(rows, dtype, monkeypatch):
    limit = rows * 37 * dtype.itemsize
    monkeypatch.setattr(linear_loss, "CHUNK", {"cpu": limit, "cuda": limit})
    features, weight, target = tensors(12, 37, dtype=dtype)
    bias = torch.linspace(-2, 2, 37).to(dtype).requires_grad_()
    loss, nll_loss = linear_label_smoothed_nll_loss(features, weight, target, 0.1, PAD, bias)
    loss.backward()
    ones = torch.ones(12, 1, dtype=dtype)
    wide = [torch.cat(pair, dim=1).detach().requires_grad_() for pair in ((features, ones), (weight, bias[:, None]))]
    expected, expected_nll = stock_loss(*wide, target, 0.1, PAD)
    expected.backward()
    actual = loss.detach(), nll_loss, features.grad, weight.grad, bias.grad
    expected = expected.detach(), expected_nll.detach(), wide[0].grad[:, :-1], wide[1].grad[:, :-1], wide[1].grad[:, -1]
    assert all(gradient.dtype == dtype for gradient in actual[2:])
    assert_same(actual, expected, **(FP64 if dtype == torch.float64 else dict(rtol=3e-2, atol=6e-2)))


def masked_text(share=0.3, device="cpu"):
    """A batch of the task ``masked_lm``: targets are padding where no token is masked."""
    source = pad(sentences(4, 9), right=2)
    source[:, 0], source[1, 6:] = BOS, PAD
    masked = torch.rand(source.shape, generator=torch.Generator().manual_seed(0)) < share
    target = source.masked_fill(~masked | source.eq(PAD), PAD).to(device)
    source = source.masked_fill(masked & source.ne(PAD), 5).to(device)
    net_input = {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1)}
    return {"net_input": net_input, "target": target, "ntokens": 38, "nsentences": 4}


def masked_losses(**options):
    return [kind(MaskedLmConfig(**{"tpu": False, **options}), task()) for kind in (FusedMaskedLmLoss, MaskedLmLoss)]


def wrapped(model):
    """The model for several processes, parameters of which some batches do not use."""
    return ModuleProxyWrapper(DistributedDataParallel(model.train(), find_unused_parameters=True))


@pytest.mark.parametrize("untie", [False, True])
def test_a_search_for_unused_parameters_finds_those_of_the_loss(one_process_group, untie):
    """PyTorch looks for them in the forward pass of the model, behind which the fused losses use the projection."""
    model = wrapped(build("roformer_mlm_tiny", untie_weights_roberta=untie))
    for _ in range(2):
        outcome(masked_losses()[0], model, masked_text())
    model = wrapped(build("roformer_tiny", share_all_embeddings=not untie))
    for _ in range(2):
        outcome(criteria()[0], model, sample())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("arch", MLM)
def test_the_masked_loss_and_gradients_equal_fairseqs(arch, device):
    model = build(arch).to(device)
    for share in (0.3, 0.02, 1.0):
        assert_as_stock(model, masked_text(share, device), functions=masked_losses())


def test_projections_that_are_not_shared_learn():
    found = assert_as_stock(build(MLM[0], untie_weights_roberta=True), masked_text(), functions=masked_losses())
    assert found[3]["encoder.lm_head.weight"].abs().sum() > 0


def test_a_text_without_a_mask_has_no_loss_and_gradients_of_zero():
    loss, size, _, gradients = outcome(masked_losses()[0], build(MLM[0]), masked_text(share=0))
    assert loss == size == 0 and not any(gradient.any() for gradient in gradients.values())


@pytest.mark.parametrize("part", ["encoder.lm_head", ""])
def test_hooks_hear_and_change_the_masked_logits(part):
    model = build(MLM[0])
    without = masked_losses()[1](model, masked_text())[0]
    hear = (lambda *_: _[2] / 4) if part else (lambda *_: (_[2][0] / 4, _[2][1]))
    model.get_submodule(part).register_forward_hook(hear)
    found = assert_as_stock(model, masked_text(), functions=masked_losses())
    assert float(found[0]) != pytest.approx(float(without))


@pytest.mark.parametrize("method", ["forward", "get_targets", "encoder.forward", "encoder.output_layer"])
def test_a_masked_subclass_with_other_logits_or_targets_is_fairseqs_own(method):
    model = build(MLM[0])
    without = masked_losses()[1](model, masked_text())[0]
    override(model, method)
    found = assert_as_stock(model, masked_text(), functions=masked_losses())
    assert float(found[0]) != pytest.approx(float(without))


def test_only_masked_tokens_are_projected():
    model, batch = build(MLM[0]).train(), masked_text()
    seen = []
    model.encoder.lm_head.dense.register_forward_hook(lambda module, args, output: seen.append(len(output)))
    with torch.profiler.profile(record_shapes=True) as profile:
        masked_losses()[0](model, batch)
    count = int(batch["target"].ne(PAD).sum())
    types = {tuple(event.input_shapes[0]) for event in profile.events() if event.name == "aten::mm"}
    assert seen == [count] and (count, 32) in types  # features of the vocabulary's product


def test_another_head_is_left_to_fairseq():
    model, batch = build(MLM[0]), masked_text()
    model.encoder.lm_head = torch.nn.Sequential(model.encoder.lm_head.dense)
    with pytest.raises(TypeError):  # fairseq hands it the masked tokens as well
        masked_losses()[0](model, batch)


def running_text():
    text = pad(sentences(3, 8), right=1)
    net_input = {"src_tokens": text[:, :-1], "src_lengths": None}
    target = text[:, 1:].contiguous()
    return {"net_input": net_input, "target": target, "ntokens": int(target.ne(PAD).sum()), "nsentences": 3}


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("arch", ["roformer_lm_tiny", "tupe_r_lm_tiny", "fairseq_transformer_lm_tiny"])
def test_a_causal_models_loss_is_fairseqs_cross_entropy(arch, share, fused):
    model = build(arch, share_decoder_input_output_embed=share)
    batch = running_text()
    loss, *_, gradients = assert_as_stock(model, batch, label_smoothing=0.0)
    stock = outcome(CrossEntropyCriterion(task(), sentence_avg=False), model, batch)
    torch.testing.assert_close(loss, stock[0], **CLOSE)
    for name, gradient in stock[-1].items():
        torch.testing.assert_close(gradients[name], gradient, rtol=1e-4, atol=1e-5, msg=name)
    assert fused


def test_a_causal_subclass_with_other_logits_is_fairseqs_own(fused):
    model = build("roformer_lm_tiny")
    without = criteria()[1](model, running_text())[0]
    override(model, "forward")
    assert float(assert_as_stock(model, running_text())[0]) != pytest.approx(float(without))
    assert not fused
