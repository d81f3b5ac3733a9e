"""Export of language models to CTranslate2: the engine computes what fairseq does."""

import json

import numpy as np
import pytest
import torch

from fairseq_rope.__main__ import main
from fairseq_rope.export import export_model

from ..commands import failure
from ..helpers import BOS, EOS, PAD, VOCABULARY, build_felt, sentences
from ..model_folders import language_run_folder
from .engine import TOLERANCE, ctranslate2

CAUSAL = {
    **{name: (name, {}) for name in ("rope", "sinusoidal", "learned", "none", "shaw", "t5", "alibi")},
    "embeddings apart": ("rope", dict(share_decoder_input_output_embed=False)),
    "projections": ("rope", dict(share_decoder_input_output_embed=False, decoder_input_dim=20, decoder_output_dim=28)),
}
MASKED = {
    **{name: (name, {}) for name in ("rope", "sinusoidal", "learned", "none", "shaw", "t5")},
    "as BERT": ("learned", dict(layer_norm_eps=1e-3, token_type_embedding=True, activation_fn="gelu_accurate")),
}


def words(dictionary, tokens):
    return [dictionary[token] for token in tokens.tolist() if token != PAD]


def texts(first, *lengths):
    return [torch.cat([torch.tensor([first]), sentences(1, length, seed=length)[0, :-1]]) for length in lengths]


@pytest.mark.parametrize("case", CAUSAL)
@torch.no_grad()
def test_a_causal_models_log_probabilities_and_greedy_text_are_those_of_fairseq(case, tmp_path):
    encoding, options = CAUSAL[case]
    model = build_felt(encoding, "lm", **options)
    export_model(model, tmp_path / "out")
    generator, dictionary = ctranslate2.Generator(str(tmp_path / "out")), model.decoder.dictionary
    lines = texts(EOS, 5, 30, 2)
    scored = generator.score_batch([words(dictionary, line) for line in lines])
    for line, score in zip(lines, scored):
        log_probs = model.get_normalized_probs(model(line[None, :-1]), log_probs=True)[0]
        expected = log_probs.gather(-1, line[1:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(score.log_probs), expected, rtol=0, atol=TOLERANCE)

    prompt, length = lines[0][:3], 20
    found = generator.generate_batch([words(dictionary, prompt)], max_length=length - 1, end_token="w0").pop()
    tokens = prompt
    while len(tokens) < length and dictionary[int(tokens[-1])] != "w0":
        tokens = torch.cat([tokens, model(tokens[None])[0][0, -1:].argmax(-1)])
    assert [word for word in words(dictionary, tokens) if word != "w0"] == found.sequences[0]


@pytest.mark.parametrize("case", MASKED)
@torch.no_grad()
def test_a_masked_models_features_are_those_of_fairseq_also_with_padding(case, tmp_path):
    encoding, options = MASKED[case]
    model = build_felt(encoding, "mlm", **options)
    export_model(model, tmp_path / "out")
    encoder, dictionary = ctranslate2.Encoder(str(tmp_path / "out")), model.encoder.dictionary
    lines = texts(BOS, 5, 30, 2)
    found = encoder.forward_batch([words(dictionary, line) for line in lines]).last_hidden_state
    found = torch.as_tensor(np.array(found))
    for line, features in zip(lines, found):
        expected = model(line[None], features_only=True)[0][0]
        torch.testing.assert_close(features[: len(line)], expected, rtol=1e-4, atol=1e-5)
    config = json.loads((tmp_path / "out/config.json").read_text())
    assert config["bos_token"] == "<s>" and config["max_source_positions"] == 64
    assert len(json.loads((tmp_path / "out/vocabulary.json").read_text())) == VOCABULARY


def test_the_command_exports_runs_of_both_kinds(tmp_path, capsys):
    causal = language_run_folder(tmp_path / "causal", "roformer_lm_tiny")
    assert main(["export", str(causal), str(tmp_path / "generator"), "--quantization", "int8"]) == 0
    ctranslate2.Generator(str(tmp_path / "generator")).generate_batch([["</s>", "w1"]], max_length=5)
    masked = language_run_folder(tmp_path / "masked", "roformer_mlm_tiny")
    assert main(["export", str(masked / "checkpoint.pt"), str(tmp_path / "encoder")]) == 0
    assert "features only" in capsys.readouterr().out
    ctranslate2.Encoder(str(tmp_path / "encoder")).forward_batch([["<s>", "w1", "<mask>", "</s>"]])
    (masked / "dict.txt").write_text("w1 1\n")
    assert "dict.txt has 6 types" in failure(capsys, "export", masked, tmp_path / "out")
