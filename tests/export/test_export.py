"""Export to CTranslate2: the engine computes what fairseq does, and what it lacks is refused with the reason."""

import pytest
import torch

from fairseq_rope.export import QUANTIZATIONS, export_model
from fairseq_rope.positions import POSITIONS
from pipeline.translation.engines import saturates, search_options

from ..helpers import build, decoder_input, same, sentences
from .engine import BOTH, TOLERANCE, exported, felt, largest_difference, searched, some, words

APART = dict(share_all_embeddings=False)
WIDTHS_48 = dict(encoder_embed_dim=48, decoder_embed_dim=48)
WIDTH_48 = dict(decoder_embed_dim=48, decoder_input_dim=48, decoder_output_dim=48)
EXPRESSIBLE = {
    **{name: (name, name, {}) for name in BOTH},
    "rope in the layout half": ("rope", "rope", dict(rope_layout="half")),
    "a part of each head and another base": ("rope", "rope", dict(rope_dim=4, rope_base=500.0)),
    "a part of each head in the layout half": ("rope", "rope", dict(rope_dim=4, rope_layout="half")),
    "linear scaling": ("rope", "t5", dict(rope_scaling="linear", rope_scaling_factor=4.0)),
    "ntk scaling": ("rope", "rope", dict(rope_scaling="ntk", rope_scaling_factor=4.0)),
    "relative keys only": ("shaw", "shaw", dict(shaw_clip=3, shaw_no_values=True)),
    "fewer buckets": ("t5", "t5", dict(t5_buckets=8, t5_max_distance=16)),
    "alibi in the decoder": ("rope", "alibi", {}),
    "alibi with six heads": ("none", "alibi", dict(decoder_attention_heads=6, **WIDTHS_48)),
    "mixed, pre-norm in the encoder": ("sinusoidal", "shaw", dict(encoder_normalize_before=True)),
    "without positions in the decoder": ("shaw", "none", {}),
    "pre-norm in the decoder": ("rope", "rope", dict(decoder_normalize_before=True, no_decoder_final_norm=True)),
    "a norm of the embeddings, gelu": ("sinusoidal", "rope", dict(layernorm_embedding=True, activation_fn="gelu")),
    "as Marian": (
        *("sinusoidal", "sinusoidal"),
        dict(sinusoidal_formula="paper", swish=True, output_bias=True, start_with_bos=True),
    ),
    "embeddings not scaled": ("rope", "rope", dict(no_scale_embedding=True, activation_fn="gelu_accurate")),
    "embeddings shared in the decoder": ("rope", "rope", dict(APART, share_decoder_input_output_embed=True)),
    "projections around the decoder": ("rope", "rope", dict(APART, decoder_input_dim=20, decoder_output_dim=28)),
    "sides of different shapes": ("rope", "rope", dict(APART, decoder_attention_heads=2, decoder_layers=3, **WIDTH_48)),
}


@pytest.mark.parametrize("case", EXPRESSIBLE)
def test_log_probabilities_and_greedy_output_are_those_of_fairseq(case, tmp_path):
    encoder, decoder, options = EXPRESSIBLE[case]
    model = felt(encoder, decoder, **options)
    translator = exported(model, tmp_path)
    sources = some(5, 9, 60, 2, 14)
    assert largest_difference(model, translator, sources, some(7, 30, 12, 61, 1)) < TOLERANCE

    best = searched(model, sources, beam_size=1, max_len_b=30)
    expected = [words(model, hypothesis["tokens"]) for hypothesis in best]
    greedy = {**search_options(1, 0.0, 29), "return_end_token": False}
    found = translator.translate_batch([words(model, row) for row in sources], **greedy)
    assert [result.hypotheses[0] for result in found] == expected


@pytest.fixture(scope="module")
def reversing():
    """A model that has half learned to turn sentences round, so that its translations end and beams differ."""
    model = build("roformer_tiny").train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(150):
        source = sentences(32, 3 + step % 5, seed=step)
        target = torch.cat([source[:, :-1].flip(1), source[:, -1:]], dim=1)
        out = model(source, None, decoder_input(target))[0]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(out.flatten(0, 1), target.flatten()).backward()
        optimizer.step()
    return model.eval()


@pytest.mark.parametrize("lenpen", [0.0, 0.6, 2.0])
def test_hypotheses_and_their_scores_are_fairseqs(reversing, lenpen, tmp_path):
    """The score: sum of the log-probabilities by the power of the length, which counts ``</s>``.

    What the engine is told not to choose (``<pad>``; ``</s>`` as the first token) it takes out before the softmax,
    fairseq behind it: for the scores nothing is taken out.
    """
    sources = some(*range(3, 13)) + some(*range(4, 14))
    best = searched(reversing, sources, beam_size=4, len_penalty=lenpen, max_len_b=30)
    expected = [[*words(reversing, hypothesis["tokens"]), "</s>"] for hypothesis in best]
    assert len({len(hypothesis) for hypothesis in expected}) > 3

    translator, options = exported(reversing, tmp_path), search_options(4, lenpen, 30)
    lines = [words(reversing, row) for row in sources]
    found = [result.hypotheses[0] for result in translator.translate_batch(lines, **options)]
    assert sum(one == other for one, other in zip(found, expected)) >= 0.9 * len(sources)

    options.update(suppress_sequences=None, min_decoding_length=0, return_scores=True)
    scores = [
        (result.scores[0], hypothesis["score"].item())
        for result, hypothesis, tokens in zip(translator.translate_batch(lines, **options), best, expected)
        if result.hypotheses[0] == tokens
    ]
    assert len(scores) >= 0.9 * len(sources)
    assert [one for one, _ in scores] == pytest.approx([other for _, other in scores], rel=TOLERANCE)


def test_long_sentences_agree_as_well(tmp_path):
    """Beyond T5's last bucket and Shaw's clip; the engine's angles are products in fp32."""
    for encoding in BOTH:
        model = felt(encoding, encoding, max_source_positions=300, max_target_positions=300)
        translator = exported(model, tmp_path / encoding)
        assert largest_difference(model, translator, some(290, 30), some(290, 150)) < TOLERANCE, encoding


def test_all_quantisations_translate_and_leave_the_model_as_it_was(tmp_path):
    model, sizes = felt(), {}
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for quantization in QUANTIZATIONS:
        folder = tmp_path / quantization
        folder.mkdir()
        translator = exported(model, folder, quantization=quantization)
        assert same(model.state_dict(), before)
        exact = 2.0 if saturates(quantization) else 0.5 if quantization.startswith("int") else 0.05
        assert largest_difference(model, translator, some(5, 9), some(7, 12)) < exact, quantization
        sizes[quantization] = (folder / "out/model.bin").stat().st_size
    assert sizes["int8"] < sizes["float32"] / 1.5


REFUSED = [
    *((f"--encoder-position {name}", dict(encoder_position=name)) for name in sorted(POSITIONS.keys() - BOTH)),
    ("--decoder-position tupe_r", dict(decoder_position="tupe_r")),
    ("--shaw-per-head", dict(encoder_position="shaw", shaw_per_head=True)),
    ("dynamic", dict(encoder_position="rope", rope_scaling="dynamic", rope_original_length=16)),
    ("yarn", dict(encoder_position="rope", rope_scaling="yarn", rope_scaling_factor=2.0, rope_original_length=16)),
    ("--position-gap", dict(encoder_position="rope", position_gap=2)),
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
