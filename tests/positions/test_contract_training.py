"""What every registered encoding must keep when a whole model is trained, and in half precision."""

import itertools

import pytest
import torch

from ..helpers import ENCODINGS, EOS, KINDS, build_felt, build_with, decoder_input, pad, sentences
from .whole_models import logits, output, texts

pytestmark = pytest.mark.parametrize("encoding", ENCODINGS)

TOLERANCE = {torch.bfloat16: 0.1, torch.float16: 0.015}
"""About ten roundings of the dtype (2^-8, 2^-11) relative to logits of size one."""

NO_DROPOUT = dict(dropout=0.0, attention_dropout=0.0)


def test_half_precision_is_close_to_fp32(encoding):
    source, target = texts(2, 30), decoder_input(sentences(2, 30, seed=2))
    for kind, dtype in itertools.product(KINDS, TOLERANCE):
        model = build_felt(encoding, kind)
        expected = logits(model, source, target)
        error = (logits(model.to(dtype), source, target).float() - expected).abs().max()
        assert error < TOLERANCE[dtype] * max(1.0, expected.abs().max().item()), (kind, dtype)


def test_autocast_is_close_to_fp32_and_trains(encoding):
    """As ``--amp`` does."""
    source, target = pad(texts(2, 20), left=1), decoder_input(sentences(2, 20, seed=2))
    for kind in KINDS:
        model = build_felt(encoding, kind, **NO_DROPOUT).train()
        expected = logits(model, source, target)
        with torch.autocast("cpu", torch.bfloat16):
            actual = output(model, source, target)
        actual.float().logsumexp(-1).sum().backward()
        error = (actual.float() - expected).abs().max()
        assert error < TOLERANCE[torch.bfloat16] * max(1.0, expected.abs().max().item()), kind
        assert all(p.grad.isfinite().all() for p in model.parameters() if p.requires_grad), kind


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_gets_a_gradient_also_with_checkpointed_activations(encoding, kind):
    source, target = pad(texts(2, 63), left=1), decoder_input(sentences(2, 64, seed=2))
    gradients = []
    for checkpoint_activations in (False, True):
        model = build_felt(encoding, kind, checkpoint_activations=checkpoint_activations, **NO_DROPOUT).train()
        trained, accumulated = [p for p in model.parameters() if p.requires_grad], []
        for parameter in trained:
            parameter.register_post_accumulate_grad_hook(accumulated.append)
        output(model, source, target).logsumexp(-1).sum().backward()
        # a parameter that every layer reads would be ready once for each, which DistributedDataParallel refuses
        assert len(accumulated) == len(trained)
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.requires_grad})
    without = [name for name, gradient in gradients[0].items() if gradient is None or not gradient.any()]
    # adding a constant to all keys does not change a softmax: their bias has no gradient but rounding
    assert [name for name in without if "k_proj.bias" not in name] == []
    largest = max(1, *(gradient.abs().max() for gradient in gradients[0].values()))
    for name, gradient in gradients[0].items():  # sums of the layers' shares in another order
        assert (gradients[1][name] - gradient).abs().max() <= 1e-5 * largest, name


def test_a_copy_task_is_learned(encoding):
    """Two sentences with the same words in another order: only an encoding can tell them apart in the encoder."""
    torch.manual_seed(0)
    model = build_with(encoding, dropout=0.0, encoder_layers=1, decoder_layers=1).train()
    source = torch.tensor([[4, 5, 6, 7, EOS], [7, 6, 5, 4, EOS]])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(180):
        output = model(source, None, decoder_input(source))[0]
        loss = torch.nn.functional.cross_entropy(output.flatten(0, 1), source.flatten())
        if loss < 0.05:
            break
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    # a bag of words leaves the first token to chance: log(2) / 5 = 0.139 at best
    assert (loss.item() < 0.05) == (encoding != "none")
