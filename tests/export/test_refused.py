"""What CTranslate2's engine does not have is refused with the reason, and a failure leaves nothing."""

import pytest
import torch

from fairseq_rope.export import export_model
from fairseq_rope.positions import POSITIONS

from ..helpers import build
from .engine import BOTH

REFUSED = [
    *((f"--encoder-position {name}", dict(encoder_position=name)) for name in sorted(POSITIONS.keys() - BOTH)),
    ("--decoder-position tupe_r", dict(decoder_position="tupe_r")),
    ("--shaw-per-head", dict(encoder_position="shaw", shaw_per_head=True)),
    ("yarn", dict(encoder_position="rope", rope_scaling="yarn", rope_scaling_factor=2.0, rope_original_length=16)),
    ("--activation-fn", dict(activation_fn="relu_squared")),
    ("--scale-attn", dict(scale_attn=True)),
    ("--quant-noise-scalar", dict(quant_noise_scalar=0.1)),
    ("--scale-heads", dict(scale_heads=True)),
    ("--scale-fc", dict(scale_fc=True)),
    ("--scale-resids", dict(scale_resids=True)),
    ("--no-cross-attention", dict(no_cross_attention=True)),
    ("--adaptive-softmax-cutoff", dict(adaptive_softmax_cutoff="10,20", share_all_embeddings=False)),
    ("--encoder-layers", dict(encoder_layers=0)),
]


def test_what_the_engine_cannot_express_is_refused_by_name(tmp_path):
    for flag, options in REFUSED:
        with pytest.raises(ValueError, match=flag):
            export_model(build("transformer_none_tiny", **options), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_a_parameter_that_the_export_does_not_know_is_refused(tmp_path):
    model = build("roformer_tiny")
    model.decoder.register_parameter("temperature", torch.nn.Parameter(torch.ones(1)))
    with pytest.raises(ValueError, match=r"decoder\.temperature"):
        export_model(model, tmp_path / "out")
