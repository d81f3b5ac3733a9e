"""What CTranslate2's engine does not have is refused with the reason, and a failure leaves nothing."""

import pytest
import torch

from fairseq_rope.export import export_model
from fairseq_rope.positions import POSITIONS

from ..helpers import build
from .engine import BOTH, ctranslate2

REFUSED = {
    **{
        name: (dict(encoder_position=name, decoder_position="none"), f"--encoder-position {name} cannot be exported: ")
        for name in sorted(POSITIONS.keys() - BOTH)
    },
    "decoder": (
        dict(decoder_position="tupe_r"),
        "--decoder-position tupe_r cannot be exported: CTranslate2's engine has no",
    ),
    "alibi": (dict(encoder_position="alibi"), "CTranslate2's engine has ALiBi in the decoder only"),
    "shaw_per_head": (dict(encoder_position="shaw", shaw_per_head=True), "all heads of a layer share their tables"),
    "rope_base": (
        dict(encoder_position="rope", rope_base=1e30, rope_dim=4, rope_scaling="ntk", rope_scaling_factor=1e6),
        "CTranslate2's engine has it in fp32",
    ),
    "activation": (
        dict(activation_fn="relu_squared"),
        "--activation-fn relu_squared cannot be exported: CTranslate2's",
    ),
    "scale_attn": (dict(scale_attn=True), "--scale-attn cannot be exported to CTranslate2: an attention there"),
    "quant_noise_scalar": (dict(quant_noise_scalar=0.1), "--quant-noise-scalar cannot be exported to CTranslate2"),
    "scale_heads": (dict(scale_heads=True), "--scale-heads cannot be exported to CTranslate2: heads there"),
    "scale_fc": (dict(scale_fc=True), "--scale-fc cannot be exported to CTranslate2: a feed-forward network there"),
    "scale_resids": (dict(scale_resids=True), "--scale-resids cannot be exported to CTranslate2: residual"),
    "no_cross_attention": (dict(no_cross_attention=True), "--no-cross-attention cannot be exported to CTranslate2"),
    "adaptive": (
        dict(adaptive_softmax_cutoff="10,20", share_all_embeddings=False),
        "--adaptive-softmax-cutoff cannot be exported to CTranslate2: the output layer there is one projection",
    ),
    "layers": (dict(encoder_layers=0), "--encoder-layers 0 cannot be exported: CTranslate2's engine needs"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_engine_cannot_express_is_refused_with_the_reason(case, tmp_path):
    options, message = REFUSED[case]
    model = build("transformer_none_tiny", **options)
    with pytest.raises(ValueError) as refusal:
        export_model(model, tmp_path / "out")
    assert message in str(refusal.value) and "\n" not in str(refusal.value)
    assert "translate" not in str(refusal.value).lower().replace("ctranslate2", "")  # language models have these, too
    assert not list(tmp_path.iterdir())


def test_a_parameter_that_the_export_does_not_know_is_refused(tmp_path):
    model = build("roformer_tiny")
    model.decoder.register_parameter("temperature", torch.nn.Parameter(torch.ones(1)))
    with pytest.raises(ValueError, match=r"decoder.temperature cannot be exported: CTranslate2's engine has no place"):
        export_model(model, tmp_path / "out")


def test_a_word_that_is_twice_in_the_dictionary_is_refused(tmp_path):
    model = build("roformer_tiny")
    model.decoder.dictionary.symbols[10] = model.decoder.dictionary.symbols[9]
    with pytest.raises(ValueError, match="the encoder's dictionary has a word twice"):
        export_model(model, tmp_path / "out")


def test_an_export_that_fails_half_way_leaves_nothing(tmp_path, monkeypatch):
    def full(spec, folder):
        (tmp_path / folder / "model.bin").write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(ctranslate2.specs.TransformerSpec, "save", full)
    with pytest.raises(OSError, match="no space left"):
        export_model(build("roformer_tiny"), tmp_path / "out")
    assert not list(tmp_path.iterdir())
