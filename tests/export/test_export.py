"""Export to CTranslate2: the engine computes what fairseq does, and what it cannot is refused."""

import json
import sys

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_rope.export import QUANTIZATIONS, export_model
from fairseq_rope.positions import POSITIONS
from pipeline.translation.engines import search_options

from ..helpers import EOS, PAD, build, decoder_input, sentences

ctranslate2 = pytest.importorskip("ctranslate2")

BOTH = ("none", "sinusoidal", "learned", "rope", "shaw", "t5")
"""Encodings that the engine has on both sides."""

TOLERANCE = 1e-5
"""Of log-probabilities, in fp32: sums in another order."""

EXPRESSIBLE = {
    **{name: (name, name, {}) for name in BOTH},
    "rope in the layout half": ("rope", "rope", dict(rope_layout="half")),
    "a part of each head": ("rope", "rope", dict(rope_dim=4)),
    "a part of each head in the layout half": ("rope", "rope", dict(rope_dim=4, rope_layout="half")),
    "another base": ("rope", "rope", dict(rope_base=500.0)),
    "linear scaling": ("rope", "rope", dict(rope_scaling="linear", rope_scaling_factor=4.0)),
    "ntk scaling": ("rope", "rope", dict(rope_scaling="ntk", rope_scaling_factor=4.0)),
    "relative keys only": ("shaw", "shaw", dict(shaw_clip=3, shaw_no_values=True)),
    "fewer buckets": ("t5", "t5", dict(t5_buckets=8, t5_max_distance=16)),
    "alibi in the decoder": ("rope", "alibi", {}),
    "alibi with heads that are no power of two": (
        *("none", "alibi"),
        dict(decoder_attention_heads=6, encoder_embed_dim=48, decoder_embed_dim=48),
    ),
    "mixed": ("t5", "rope", {}),
    "mixed the other way": ("sinusoidal", "shaw", {}),
    "without positions in the decoder": ("shaw", "none", {}),
    "pre-norm": ("rope", "rope", dict(encoder_normalize_before=True, decoder_normalize_before=True)),
    "pre-norm in the encoder": ("rope", "rope", dict(encoder_normalize_before=True)),
    "pre-norm in the decoder": ("rope", "rope", dict(decoder_normalize_before=True, no_decoder_final_norm=True)),
    "a norm of the embeddings": ("sinusoidal", "rope", dict(layernorm_embedding=True)),
    "embeddings that are not scaled": ("rope", "rope", dict(no_scale_embedding=True)),
    "gelu": ("rope", "rope", dict(activation_fn="gelu")),
    "gelu_accurate": ("rope", "rope", dict(activation_fn="gelu_accurate")),
    "tanh": ("rope", "rope", dict(activation_fn="tanh")),
    "embeddings shared in the decoder": (
        *("rope", "rope"),
        dict(share_all_embeddings=False, share_decoder_input_output_embed=True),
    ),
    "no shared embeddings": ("rope", "rope", dict(share_all_embeddings=False)),
    "projections around the decoder": (
        *("rope", "rope"),
        dict(share_all_embeddings=False, decoder_input_dim=20, decoder_output_dim=28),
    ),
    "a projection before the decoder": ("rope", "none", dict(share_all_embeddings=False, decoder_input_dim=20)),
    "sides of different shapes": (
        *("rope", "rope"),
        dict(
            share_all_embeddings=False,
            decoder_embed_dim=48,
            decoder_input_dim=48,
            decoder_output_dim=48,
            decoder_attention_heads=2,
            decoder_layers=3,
        ),
    ),
}

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


def felt(encoder="rope", decoder="rope", noise=0.2, **options):
    """A small model in which every parameter, those of the positions included, is random and felt."""
    model = build("transformer_none_tiny", encoder_position=encoder, decoder_position=decoder, **options)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(noise * torch.randn(parameter.shape, generator=generator))
    return model


def exported(model, folder, **options):
    export_model(model, folder / "out", **options)
    return ctranslate2.Translator(str(folder / "out"), intra_threads=1)


def words(model, tokens):
    return [model.encoder.dictionary[token] for token in tokens.tolist() if token not in (PAD, EOS)]


def pad_left(rows):
    longest = max(len(row) for row in rows)
    return torch.stack([torch.nn.functional.pad(row, (longest - len(row), 0), value=PAD) for row in rows])


def some(*lengths):
    return [sentences(1, length, seed=length)[0] for length in lengths]


@torch.no_grad()
def log_probabilities(model, sources, targets):
    """fairseq's, of each token of ``targets`` and ``</s>``, in one batch."""
    padded = torch.nn.utils.rnn.pad_sequence(targets, batch_first=True, padding_value=PAD)
    previous = [decoder_input(target[None])[0] for target in targets]
    previous = torch.nn.utils.rnn.pad_sequence(previous, batch_first=True, padding_value=PAD)
    out = model.decoder(previous, encoder_out=model.encoder(pad_left(sources)))
    found = model.get_normalized_probs(out, log_probs=True).gather(-1, padded[..., None])[..., 0]
    return [row[: len(target)] for row, target in zip(found, targets)]


def largest_difference(model, translator, sources, targets):
    scored = translator.score_batch([words(model, row) for row in sources], [words(model, row) for row in targets])
    expected = log_probabilities(model, sources, targets)
    return max((torch.tensor(s.log_probs) - e).abs().max().item() for s, e in zip(scored, expected))


@pytest.mark.parametrize("case", EXPRESSIBLE)
def test_log_probabilities_and_greedy_output_are_those_of_fairseq(case, tmp_path):
    encoder, decoder, options = EXPRESSIBLE[case]
    model = felt(encoder, decoder, **options)
    translator = exported(model, tmp_path)
    sources = some(5, 9, 60, 2, 14)
    assert largest_difference(model, translator, sources, some(7, 30, 12, 61, 1)) < TOLERANCE

    search = SequenceGenerator([model], model.decoder.dictionary, beam_size=1, max_len_b=30)
    padded = pad_left(sources)
    batch = {"net_input": {"src_tokens": padded, "src_lengths": padded.ne(PAD).sum(1)}}
    expected = [words(model, hypotheses[0]["tokens"]) for hypotheses in search.generate([model], batch)]
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
    padded = pad_left(sources)
    batch = {"net_input": {"src_tokens": padded, "src_lengths": padded.ne(PAD).sum(1)}}
    search = SequenceGenerator([reversing], reversing.decoder.dictionary, beam_size=4, len_penalty=lenpen, max_len_b=30)
    best = [hypotheses[0] for hypotheses in search.generate([reversing], batch)]
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


@pytest.mark.parametrize("encoding", BOTH)
def test_long_sentences_agree_as_well(encoding, tmp_path):
    """Beyond T5's last bucket and Shaw's clip; the engine's angles are products in fp32."""
    model = felt(encoding, encoding, max_source_positions=300, max_target_positions=300)
    assert largest_difference(model, exported(model, tmp_path), some(290, 30), some(290, 150)) < TOLERANCE


def test_another_layout_of_the_rotation_would_be_noticed(tmp_path):
    """That the agreement above means something: the same parameters, read in the other layout."""
    translator = exported(felt(rope_layout="half"), tmp_path)
    other = felt(rope_layout="interleaved")
    assert largest_difference(other, translator, some(9), some(9)) > 100 * TOLERANCE


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_engine_cannot_express_is_refused_with_the_reason(case, tmp_path):
    options, message = REFUSED[case]
    model = build("transformer_none_tiny", **options)
    with pytest.raises(ValueError) as refusal:
        export_model(model, tmp_path / "out")
    assert message in str(refusal.value) and "\n" not in str(refusal.value)
    assert not list(tmp_path.iterdir())


def test_a_parameter_that_the_export_does_not_know_is_refused(tmp_path):
    model = build("roformer_tiny")
    model.decoder.register_parameter("temperature", torch.nn.Parameter(torch.ones(1)))
    with pytest.raises(ValueError, match=r"decoder.temperature cannot be exported: CTranslate2's engine has no place"):
        export_model(model, tmp_path / "out")


def test_fairseqs_own_models_are_left_to_the_engines_own_converter(tmp_path):
    with pytest.raises(ValueError, match="ct2-fairseq-converter"):
        export_model(build("fairseq_transformer_tiny"), tmp_path / "out")


@pytest.mark.parametrize("quantization", QUANTIZATIONS)
def test_all_quantisations_translate_and_leave_the_model_as_it_was(quantization, tmp_path):
    model = felt()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    translator = exported(model, tmp_path, quantization=quantization)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    exact = 0.5 if quantization.startswith("int") else 0.05
    assert largest_difference(model, translator, some(5, 9), some(7, 12)) < exact


def test_int8_is_smaller_and_shared_embeddings_are_stored_once(tmp_path):
    sizes = {}
    for name, options in (("shared", {}), ("int8", dict(quantization="int8")), ("apart", {})):
        model = felt(share_all_embeddings=name != "apart", encoder_embed_dim=64, decoder_embed_dim=64)
        export_model(model, tmp_path / name, **options)
        sizes[name] = (tmp_path / name / "model.bin").stat().st_size
    assert sizes["int8"] < sizes["shared"] / 2 and sizes["shared"] < sizes["apart"]


def test_the_folder_holds_the_words_the_special_symbols_and_the_longest_sentences(tmp_path):
    model = felt()
    exported(model, tmp_path)
    config = json.loads((tmp_path / "out/config.json").read_text())
    special = ("bos_token", "eos_token", "unk_token", "decoder_start_token", "add_source_eos", "add_source_bos")
    assert [config[name] for name in special] == ["<s>", "</s>", "<unk>", "</s>", True, False]
    assert config["max_source_positions"] == config["max_target_positions"] == 64
    vocabulary = json.loads((tmp_path / "out/shared_vocabulary.json").read_text())
    assert vocabulary == model.encoder.dictionary.symbols


def test_a_word_that_is_twice_in_the_dictionary_is_refused(tmp_path):
    model = felt()
    model.decoder.dictionary.symbols[10] = model.decoder.dictionary.symbols[9]
    with pytest.raises(ValueError, match="the encoder's dictionary has a word twice"):
        export_model(model, tmp_path / "out")


def test_wrong_calls_are_refused_before_anything_is_made(tmp_path, monkeypatch):
    model = felt()
    with pytest.raises(ValueError, match=r"--quantization must be one of int8, .*, float32, not 'int4'"):
        export_model(model, tmp_path / "out", "int4")
    (tmp_path / "there").mkdir()
    with pytest.raises(ValueError, match="there exists already: choose another folder, or remove it"):
        export_model(model, tmp_path / "there")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ValueError, match=r"CTranslate2 is not installed: run scripts/install.sh, or pip install"):
        export_model(model, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_an_export_that_fails_half_way_leaves_nothing(tmp_path, monkeypatch):
    def full(spec, folder):
        (tmp_path / folder / "model.bin").write_bytes(b"half")
        raise OSError("no space left on device")

    monkeypatch.setattr(ctranslate2.specs.TransformerSpec, "save", full)
    with pytest.raises(OSError, match="no space left"):
        export_model(felt(), tmp_path / "out")
    assert not list(tmp_path.iterdir())
