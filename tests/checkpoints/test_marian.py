"""Folders of MarianMT, written here without the library: there and back, and what is refused."""

import json
import shutil

import pytest
import torch

from fairseq_rope.__main__ import main
from fairseq_rope.checkpoints.model_folder import load_model

from ..commands import ROOT

safetensors = pytest.importorskip("safetensors.torch")

WORDS = ["</s>", "<unk>", "\u2581a", "\u2581dog", "s", ">>deu<<", "<pad>"]
WIDTH, INNER, LAYERS = 8, 12, 1
TYPES = len(WORDS)
BIAS = {"final_logits_bias": (1, TYPES)}


def tensors(types=TYPES, further=BIAS):
    torch.manual_seed(1)
    shapes = {"model.shared.weight": (types, WIDTH), **further}
    for side, attentions in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "encoder_attn"])):
        layer = {f"{a}.{part}_proj": (WIDTH, WIDTH) for a in attentions for part in ("q", "k", "v", "out")}
        layer |= {f"{a}_layer_norm": (WIDTH,) for a in attentions} | {"final_layer_norm": (WIDTH,)}
        layer |= {"fc1": (INNER, WIDTH), "fc2": (WIDTH, INNER)}
        for name, shape in layer.items():
            shapes[f"model.{side}.layers.0.{name}.weight"] = shape
            shapes[f"model.{side}.layers.0.{name}.bias"] = shape[:1]
    return {name: torch.randn(shape) for name, shape in shapes.items()}


CONFIG = {
    "model_type": "marian",
    "d_model": WIDTH,
    "max_position_embeddings": 32,
    "activation_function": "swish",
    "scale_embedding": True,
    "vocab_size": len(WORDS),
    "pad_token_id": len(WORDS) - 1,
    "decoder_start_token_id": len(WORDS) - 1,
    "eos_token_id": 0,
    **{f"{side}_layers": LAYERS for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": INNER for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 2 for side in ("encoder", "decoder")},
}


def write_pieces(folder, size):
    """Models of SentencePiece for both sides of the demo; returns the vocabulary, with all their pieces."""
    sentencepiece, words = pytest.importorskip("sentencepiece"), {"</s>": 0, "<unk>": 1}
    for side, lang in (("source", "en"), ("target", "de")):
        text, prefix = str(ROOT / f"data/demo/train.{lang}"), str(folder / side)
        sentencepiece.SentencePieceTrainer.train(input=text, model_prefix=prefix, vocab_size=size, minloglevel=2)
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        for piece in map(pieces.id_to_piece, range(3, size)):
            words.setdefault(piece, len(words))
    return words


def write_model(path, numbers, **config):
    """What stands beside the models of SentencePiece, for a vocabulary of words and their numbers."""
    made = tensors(len(numbers), {"final_logits_bias": (1, len(numbers))})
    safetensors.save_file(made, str(path / "model.safetensors"), metadata={"format": "pt"})
    (path / "config.json").write_text(json.dumps({**CONFIG, **config}))
    (path / "vocab.json").write_text(json.dumps(numbers))
    (path / "tokenizer_config.json").write_text(json.dumps({"source_lang": "en", "target_lang": "de"}))


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "theirs"
    path.mkdir()
    write_model(path, {word: number for number, word in enumerate(WORDS)}, torch_dtype="float16")
    for side in ("source", "target"):
        (path / f"{side}.spm").write_bytes(b"pieces")
    return path


def converted(path, to, out):
    return main(["convert", str(path), "--to", to, "--out", str(out)])


def test_a_folder_becomes_a_model_and_comes_back_with_the_same_tensors(folder, tmp_path):
    assert (
        converted(folder, "plugin", tmp_path / "run")
        == converted(tmp_path / "run", "hugging-face", tmp_path / "back")
        == 0
    )
    back = safetensors.load_file(str(tmp_path / "back/model.safetensors"))
    given = tensors()
    assert back.keys() == given.keys() and all(torch.equal(back[name], value) for name, value in given.items())
    config = json.loads((tmp_path / "back/config.json").read_text())
    assert CONFIG.items() <= config.items() and "torch_dtype" not in config
    model = load_model(tmp_path / "run")
    assert model.decoder.output_projection.bias[model.decoder.dictionary.bos()] < -1000  # no translation has it
    row = model.encoder.dictionary.index("\u2581dog")
    assert torch.equal(model.encoder.embed_tokens.weight[row], given["model.shared.weight"][WORDS.index("\u2581dog")])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (dict(decoder_start_token_id=0), "decoder_start_token_id"),
        (dict(tie_word_embeddings=False), "tie_word_embeddings"),
        (dict(vocab_size=9), "vocab_size"),
        (dict(activation_function="mish"), "activation_function"),
        (dict(d_model=16), "not floating-point of shape"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(folder, tmp_path, capsys, changes, message):
    (folder / "config.json").write_text(json.dumps({**CONFIG, **changes}))
    assert converted(folder, "plugin", tmp_path / "run") == 1
    assert message in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_a_missing_file_other_positions_and_fairseqs_form_are_refused(folder, tmp_path, capsys):
    broken = shutil.copytree(folder, tmp_path / "broken")
    (broken / "target.spm").unlink()
    assert converted(broken, "plugin", tmp_path / "out") == 1 and "target.spm: missing" in capsys.readouterr().err
    assert converted(folder, "plugin", tmp_path / "run") == 0
    assert converted(tmp_path / "run", "fairseq", tmp_path / "out") == 1
    assert "is not in fairseq's models" in capsys.readouterr().err
    state = torch.load(tmp_path / "run/checkpoint.pt", weights_only=False)
    state["cfg"]["model"].position_gap = 2
    torch.save(state, (spaced := shutil.copytree(tmp_path / "run", tmp_path / "spaced")) / "checkpoint.pt")
    for form in ("hugging-face", "fairseq"):
        assert converted(spaced, form, tmp_path / "out") == 1 and not (tmp_path / "out").exists()
        assert "--position-gap 2" in capsys.readouterr().err
    ours = ["convert", str(tmp_path / "run"), "--sinusoidal-formula", "fairseq", "--out", str(spaced / "checkpoint.pt")]
    assert main(ours) == 0 and converted(spaced, "hugging-face", tmp_path / "out") == 1
    assert "--sinusoidal-formula is fairseq: MarianMT has only paper" in capsys.readouterr().err
    rope = ["convert", str(tmp_path / "run"), "--position", "rope", "--out", str(tmp_path / "run/checkpoint.pt")]
    assert main(rope) == 0
    assert converted(tmp_path / "run", "hugging-face", tmp_path / "out") == 1
    assert "MarianMT has only sinusoidal" in capsys.readouterr().err and not (tmp_path / "out").exists()
