"""The fused losses of language models are fairseq's: the causal one's, and the masked one's over masked tokens."""

import pytest
import torch
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss
from fairseq.distributed import ModuleProxyWrapper
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from fairseq_rope.training.linear_loss import linear_label_smoothed_nll_loss
from fairseq_rope.training.masked_criterion import FusedMaskedLmLoss

from ..helpers import BOS, DEVICES, PAD, build, override, pad, sentences, task
from .test_criterion import CLOSE, assert_as_stock, criteria, fused, of_a_subclass, outcome, sample, with_a_hook
from .test_linear_loss import FP64, assert_same, half_precision, limit, stock_loss, tensors

__all__ = ["fused", "half_precision"]  # fixtures


MLM = ["roformer_mlm_tiny", "transformer_linear_learned_mlm_tiny", "fairseq_transformer_mlm_tiny"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_bias_of_the_projection_takes_part(dtype, monkeypatch):
    for rows in (2, 100):
        limit(monkeypatch, rows, 37, dtype.itemsize)
        found = []
        for function in (linear_label_smoothed_nll_loss, stock_loss):
            features, weight, target = tensors(12, 37, dtype=dtype)
            bias = torch.linspace(-2, 2, 37).to(dtype).requires_grad_()
            loss, nll_loss = function(features, weight, target, 0.1, PAD, bias)
            loss.backward()
            found.append((loss.detach(), nll_loss.detach(), features.grad, weight.grad, bias.grad))
        assert_same(*found, **(FP64 if dtype == torch.float64 else dict(rtol=3e-2, atol=6e-2)))


def masked_text(share=0.3, device="cpu"):
    """A batch of the task ``masked_lm``: targets are padding where no token is masked."""
    source = pad(sentences(4, 9), right=2)
    source[:, 0], source[1, 6:] = BOS, PAD
    masked = torch.rand(source.shape, generator=torch.Generator().manual_seed(0)) < share
    target = source.masked_fill(~masked | source.eq(PAD), PAD).to(device)
    source = source.masked_fill(masked & source.ne(PAD), 5).to(device)
    net_input = {"src_tokens": source, "src_lengths": source.ne(PAD).sum(1)}
    return {"net_input": net_input, "target": target, "ntokens": 38, "nsentences": 4}


def masked_losses():
    return [kind(MaskedLmConfig(tpu=False), task()) for kind in (FusedMaskedLmLoss, MaskedLmLoss)]


@pytest.mark.parametrize("device", DEVICES)
def test_under_autocast_the_bias_of_the_projection_stays_in_fp32(device):
    model = build(MLM[0]).to(device)
    torch.nn.init.normal_(model.encoder.lm_head.bias, std=3)
    with torch.autocast(device, dtype=torch.bfloat16):
        ours, stock = (loss(model, masked_text(device=device))[0] for loss in masked_losses())
    torch.testing.assert_close(ours, stock)


def test_a_search_for_unused_parameters_finds_those_of_the_loss(tmp_path):
    """PyTorch looks for them in the forward pass of the model, behind which the fused losses use the projection."""

    def wrapped(model):
        return ModuleProxyWrapper(DistributedDataParallel(model.train(), find_unused_parameters=True))

    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        for untie in (False, True):
            masked = wrapped(build("roformer_mlm_tiny", untie_weights_roberta=untie))
            translation = wrapped(build("roformer_tiny", share_all_embeddings=not untie))
            for _ in range(2):
                outcome(masked_losses()[0], masked, masked_text())
                outcome(criteria()[0], translation, sample())
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("arch", MLM)
def test_the_masked_loss_and_gradients_equal_fairseqs(arch, device, fused):
    model = build(arch).to(device)
    for share in (0.3, 0.02, 1.0):
        assert_as_stock(model, masked_text(share, device), functions=masked_losses())
    untied = build(arch, untie_weights_roberta=True).to(device)
    found = assert_as_stock(untied, masked_text(device=device), functions=masked_losses())
    assert found[3]["encoder.lm_head.weight"].any() and len(fused) == 4


def test_a_text_without_a_mask_has_no_loss_and_gradients_of_zero():
    loss, size, _, gradients = outcome(masked_losses()[0], build(MLM[0]), masked_text(share=0))
    assert loss == size == 0 and not any(gradient.any() for gradient in gradients.values())


MASKED_CHANGES = {
    **{f"hook on {part}": with_a_hook(part) for part in ("encoder.lm_head", "")},
    **{method: of_a_subclass(method) for method in ("forward", "encoder.forward", "encoder.lm_head.forward")},
    **{method: of_a_subclass(method) for method in ("get_targets", "encoder.output_layer")},
}


def test_a_masked_model_with_other_logits_or_targets_is_fairseqs_own(fused):
    for name, change in MASKED_CHANGES.items():
        model = build(MLM[0])
        before = masked_losses()[1](model, masked_text())[0]
        change(model)
        found = assert_as_stock(model, masked_text(), functions=masked_losses())
        assert float(found[0]) != pytest.approx(float(before)) and not fused, name


def test_only_masked_tokens_are_projected():
    model, batch = build(MLM[0]).train(), masked_text()
    seen = []
    model.encoder.lm_head.dense.register_forward_hook(lambda module, args, output: seen.append(len(output)))
    with torch.profiler.profile(record_shapes=True) as profile:
        masked_losses()[0](model, batch)
    count = int(batch["target"].ne(PAD).sum())
    types = {tuple(event.input_shapes[0]) for event in profile.events() if event.name == "aten::mm"}
    assert seen == [count] and (count, 32) in types  # features of the vocabulary's product


def running_text():
    text = pad(sentences(3, 8), right=1)
    net_input = {"src_tokens": text[:, :-1], "src_lengths": None}
    target = text[:, 1:].contiguous()
    return {"net_input": net_input, "target": target, "ntokens": int(target.ne(PAD).sum()), "nsentences": 3}


@pytest.mark.parametrize("arch", ["roformer_lm_tiny", "tupe_r_lm_tiny", "fairseq_transformer_lm_tiny"])
def test_a_causal_models_loss_is_fairseqs_cross_entropy(arch, fused):
    for share in (True, False):
        model, batch = build(arch, share_decoder_input_output_embed=share), running_text()
        loss, *_, gradients = assert_as_stock(model, batch, label_smoothing=0.0)
        stock = outcome(CrossEntropyCriterion(task(), sentence_avg=False), model, batch)
        torch.testing.assert_close(loss, stock[0], **CLOSE)
        for name, gradient in stock[-1].items():
            torch.testing.assert_close(gradients[name], gradient, rtol=1e-4, atol=1e-5, msg=name)
    assert len(fused) == 2
    before = float(loss)
    override(model, "forward")
    assert float(assert_as_stock(model, batch, label_smoothing=0.0)[0]) != pytest.approx(before)
    assert len(fused) == 2
