"""What every registered encoding must keep when a whole model is trained, and in half precision."""

import pytest
import torch

from ..helpers import ENCODINGS, EOS, KINDS, build_felt, build_with, decoder_input, pad, sentences
from .whole_models import logits, output, texts

pytestmark = pytest.mark.parametrize("encoding", ENCODINGS)


@pytest.mark.parametrize("dtype,tolerance", [(torch.bfloat16, 0.1), (torch.float16, 0.015)])
@pytest.mark.parametrize("kind", KINDS)
def test_half_precision_is_close_to_fp32(encoding, kind, dtype, tolerance):
    """Tolerance: about ten roundings of the dtype (2^-8, 2^-11) relative to logits of size one."""
    model = build_felt(encoding, kind)
    source, target = texts(2, 30), decoder_input(sentences(2, 30, seed=2))
    expected = logits(model, source, target)
    actual = logits(build_felt(encoding, kind).to(dtype), source, target)
    assert (actual.float() - expected).abs().max() < tolerance * max(1.0, expected.abs().max().item())


@pytest.mark.parametrize("kind", KINDS)
def test_autocast_is_close_to_fp32_and_trains(encoding, kind):
    """As ``--amp`` does; tolerance as for bfloat16 above."""
    model = build_felt(encoding, kind, dropout=0.0, attention_dropout=0.0).train()
    source, target = pad(texts(2, 20), left=1), decoder_input(sentences(2, 20, seed=2))
    expected = logits(model, source, target)
    with torch.autocast("cpu", torch.bfloat16):
        actual = output(model, source, target)
    actual.float().logsumexp(-1).sum().backward()
    assert (actual.float() - expected).abs().max() < 0.1 * max(1.0, expected.abs().max().item())
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)


@pytest.mark.parametrize("checkpoint_activations", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_gets_a_gradient(encoding, kind, checkpoint_activations):
    model = build_felt(encoding, kind, checkpoint_activations=checkpoint_activations, dropout=0.0).train()
    source, target = texts(2, 64), decoder_input(sentences(2, 64, seed=2))
    output(model, source, target).logsumexp(-1).sum().backward()
    without = [
        n for n, p in model.named_parameters() if p.requires_grad and (p.grad is None or not p.grad.abs().sum() > 0)
    ]
    # adding a constant to all keys does not change a softmax: their bias has no gradient but rounding
    assert [name for name in without if "k_proj.bias" not in name] == []


@pytest.mark.parametrize("kind", KINDS)
def test_activation_checkpointing_changes_no_gradient(encoding, kind):
    gradients = []
    for checkpoint_activations in (False, True):
        options = dict(checkpoint_activations=checkpoint_activations, dropout=0.0, attention_dropout=0.0)
        model = build_felt(encoding, kind, **options).train()
        output(model, pad(texts(2, 9), left=1), decoder_input(sentences(2, 7, seed=2))).pow(2).sum().backward()
        gradients.append({name: p.grad for name, p in model.named_parameters() if p.requires_grad})
    largest = max(1, *(gradient.abs().max() for gradient in gradients[0].values()))
    for name, gradient in gradients[0].items():  # sums of the layers' shares in another order
        assert (gradients[1][name] - gradient).abs().max() <= 1e-5 * largest, name


def test_a_copy_task_is_learned(encoding):
    """Two sentences with the same words in another order: only an encoding can tell them apart in the encoder."""
    torch.manual_seed(0)
    model = build_with(encoding, dropout=0.0).train()
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
