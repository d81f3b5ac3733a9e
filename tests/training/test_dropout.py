"""Dropout on a CPU: as likely, as large and as repeatable as PyTorch's."""

import pytest
import torch
from fairseq.modules.fairseq_dropout import FairseqDropout

from fairseq_rope.training.dropout import CpuDropout

from ..helpers import SOFTMAX, build, build_with, sentences


@pytest.mark.parametrize("p", [2**-16, 0.1, 0.5, 0.9, 1 - 2**-16])
def test_each_number_is_dropped_with_the_probability_and_the_rest_is_scaled(p):
    """One level of 65,536 more or less would be felt at both ends."""
    torch.manual_seed(1)
    count = 4_000_003  # not a multiple of the four masks of a random integer
    out = CpuDropout(p).train()(torch.ones(count))
    dropped = (out == 0).double()
    assert dropped.mean().item() == pytest.approx(p, abs=4 * (p * (1 - p) / count) ** 0.5)
    kept = out[out != 0]
    assert kept.min() == kept.max() and kept[0].item() == pytest.approx(65536 / (65536 - round(65536 * p)))
    # each of the four numbers of a random integer alike
    parts = dropped[: count - 3].view(-1, 4).mean(dim=0)
    assert parts.tolist() == pytest.approx([p] * 4, abs=5 * (p * (1 - p) / count * 4) ** 0.5)


def test_the_gradient_passes_where_the_number_did():
    for dtype in (torch.float, torch.bfloat16, torch.half):
        torch.manual_seed(1)
        x = torch.randn(7, 3, 5, dtype=dtype).transpose(0, 2).requires_grad_()
        out = CpuDropout(0.3).train()(x)
        out.backward(torch.ones_like(out))
        assert out.dtype == dtype and torch.equal(x.grad == 0, out == 0)
        kept = out != 0
        assert torch.allclose((out / x)[kept].float(), x.grad[kept].float(), rtol=1e-2)


def test_nothing_and_everything_are_dropped_exactly():
    for p in (0.0, 1e-7, 1.0):
        out = CpuDropout(p).train()(torch.ones(1000))
        assert out.sum().item() == pytest.approx(0 if p == 1 else 1000, abs=1)


def test_nothing_is_dropped_in_evaluation_unless_it_is_retained():
    dropout, x = CpuDropout(0.5, module_name="x").eval(), torch.ones(100)
    assert dropout(x) is x
    dropout.make_generation_fast_("x", retain_dropout=True)
    assert (dropout(x) == 0).any()


def dropouts(model):
    return {name: (m.module_name, m.p) for name, m in model.named_modules() if isinstance(m, FairseqDropout)}


def test_each_dropout_has_fairseqs_probability_and_its_name_for_retain_dropout_modules():
    adaptive = dict(adaptive_softmax_cutoff="10,20", share_all_embeddings=False)
    options = dict(adaptive, dropout=0.1, attention_dropout=0.2, activation_dropout=0.3)
    stock = dropouts(build("fairseq_transformer_tiny", **options))
    assert all(dropouts(build_with(encoding, **options)) == stock for encoding in SOFTMAX)
    linear = dropouts(build_with("linear", **adaptive))
    assert {name: linear[name][0] for name in stock} == {name: found for name, (found, _) in stock.items()}


def test_embeddings_are_dropped_with_their_positions():
    model, tokens = build("transformer_sinusoidal_tiny", dropout=1.0).train(), sentences(2, 6)
    assert not model.encoder.forward_embedding(tokens)[0].any()
    assert not model.decoder.embed(tokens, torch.arange(6)[None]).any()
