"""``--fade-positions``: sinusoids that a trained model knows fade while it learns other positions."""

import pytest
import torch

from fairseq_rope.fading import FadingSinusoids

from .helpers import FP32, KINDS, build_with, decoder_input, pad, sentences
from .positions.whole_models import logits, texts

NONE = dict(dropout=0.0, attention_dropout=0.0, activation_dropout=0.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("encoding", ["none", "rope"])
def test_sinusoids_fade_from_a_whole_term_to_nothing(kind, encoding):
    """Without another encoding, the model begins as a sinusoidal one, also where padding comes first."""
    source, target = texts(2, 9), decoder_input(sentences(2, 9, seed=2))
    source[0] = pad(source[:1, :6], left=3)
    fading, plain = (build_with(encoding, kind, fade_positions=updates, **NONE).train() for updates in (10, 0))
    before, without = (logits(model, source, target) for model in (fading, plain))
    if encoding == "none":
        real = (source if kind == "mlm" else target).ne(1)
        sinusoidal = logits(build_with("sinusoidal", kind, **NONE).train(), source, target)
        torch.testing.assert_close(before[real], sinusoidal[real], **FP32)
    assert not torch.allclose(before, without)
    fading.set_num_updates(10)
    assert torch.equal(logits(fading, source, target), without)
    fading.set_num_updates(4)
    assert torch.equal(logits(fading.eval(), source, target), without)
    sinusoids = next(module for module in fading.modules() if isinstance(module, FadingSinusoids)).train()
    faded = sinusoids.term(source)
    fading.set_num_updates(0)
    torch.testing.assert_close(faded, 0.6 * sinusoids.term(source))


def test_sinusoids_do_not_fade_into_themselves():
    with pytest.raises(ValueError, match="which this model has"):
        build_with("sinusoidal", fade_positions=5)
