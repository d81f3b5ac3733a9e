"""Hugging Face's folders that cannot be carried, damaged and hostile ones: refused in one line, and nothing is left."""

import argparse
import pickle
from pathlib import Path

import pytest
import torch

from fairseq_rope.checkpoints.files import load_checkpoint, save_checkpoint
from fairseq_rope.checkpoints.hugging_face import names
from fairseq_rope.checkpoints.hugging_face.configuration import read_configuration

from ..commands import failure
from ..disks import full_disk
from ..helpers import Malicious
from .hugging_face import PIECES, convert, folder, tensors


def with_tensors(**changes):
    return {name: value for name, value in {**tensors("bert"), **changes}.items() if value is not None}


QUERY = "bert.encoder.layer.1.attention.self.query.weight"
WRONG_CONFIG = {
    "kind": (dict(model_type="gpt2"), "its model_type is 'gpt2': only roformer and bert can be converted"),
    "type of the kind": (dict(model_type=["bert"]), "its model_type is ['bert']: only"),
    "text for a number": (dict(hidden_size="16"), "hidden_size is '16': it must be a whole number from 1"),
    "truth for a number": (dict(num_hidden_layers=True), "num_hidden_layers is True: it must be a whole number"),
    "huge": (dict(num_hidden_layers=10**30), "it must be a whole number"),
    "more layers": (
        dict(num_hidden_layers=2**31 - 1),
        "there is no tensor bert.encoder.layer.2.attention.self.query.w",
    ),
    "eps": (dict(layer_norm_eps=float("nan")), "layer_norm_eps is nan: it must be a number of at least 0 and below 1"),
    "heads": (dict(num_attention_heads=3), "num_attention_heads is 3: it must divide hidden_size 16 into heads"),
    "embeddings": (dict(embedding_size=8), "embedding_size is 8: it must be hidden_size 16: a projection"),
    "activation": (dict(hidden_act="silu"), "hidden_act is 'silu': it must be one of gelu, relu, tanh, gelu_new"),
    "positions": (
        dict(position_embedding_type="relative_key"),
        "position_embedding_type is 'relative_key': it must be \"",
    ),
    "decoder": (dict(is_decoder=True), "is_decoder is True: it must be false: the masked models here do nothing else"),
    "rows": (dict(max_position_embeddings=64), "position_embeddings.weight is float32 of shape (32, 16), not floating"),
    "words": (dict(vocab_size=99), "vocab.txt has 23 word pieces, but vocab_size is 99 in config.json: take both from"),
    "padding": (dict(pad_token_id=1), "pad_token_id is 1, but [PAD] is 0 in vocab.txt"),
    "tied": (dict(tie_word_embeddings="no"), "tie_word_embeddings is 'no': it must be true or false"),
}
WRONG_WEIGHTS = {
    "missing": (
        with_tensors(**{QUERY: None}),
        f"there is no tensor {QUERY}: give the folder of a BertForMaskedLM with",
    ),
    "shape": (
        with_tensors(**{QUERY: torch.zeros(8, 16)}),
        f"{QUERY} is float32 of shape (8, 16), not floating-point of",
    ),
    "integers": (with_tensors(**{QUERY: torch.zeros(16, 16, dtype=torch.int8)}), "is int8 of shape (16, 16), not"),
    "NaN": (
        with_tensors(**{"cls.predictions.bias": torch.full((23,), torch.nan)}),
        "cls.predictions.bias holds NaN or infinity: training had diverged",
    ),
    "further": (with_tensors(classifier=torch.zeros(2)), "'classifier' has no place in a masked model here"),
    "head": (with_tensors(**{"cls.predictions.bias": None}), "there is no tensor cls.predictions.bias"),
    "untied": (
        with_tensors(**{"cls.predictions.decoder.weight": torch.zeros(23, 16)}),
        "cls.predictions.decoder.weight differs from the embeddings: set tie_word_embeddings to false",
    ),
    "biases": (
        with_tensors(**{"cls.predictions.decoder.bias": torch.zeros(23)}),
        "cls.predictions.decoder.bias differ",
    ),
    "no tensors": ({"epoch": 3}, "pytorch_model.bin: not the tensors of a model by name"),
}
WRONG_FILES = {
    "code": ("pytorch_model.bin", pickle.dumps(Malicious()), "refused: it holds objects that could run code: take the"),
    "half a pickle": (
        "pytorch_model.bin",
        b"PK\x03\x04 half",
        "pytorch_model.bin: damaged: take the model's model.saf",
    ),
    "shards": ("pytorch_model.bin.index.json", b"{}", "its weights are in several files: join them with transformers'"),
    "no JSON": ("config.json", b"{", "config.json: not JSON (Expecting"),
    "deep": ("config.json", b"[" * 100000, "config.json: not JSON ("),
    "a list": ("config.json", b"[]", "config.json: not an object of JSON"),
    "twice": ("vocab.txt", b"[PAD]\nthe\nthe\n", "vocab.txt, line 3: 'the' is in line 2 already: fetch it again"),
    "newline": ("vocab.txt", b"[PAD]\n\nthe\n", "vocab.txt, line 2: '' is not one piece without spaces"),
    "carriage": ("vocab.txt", b"[PAD]\nt\rhe\n", r"line 2: 't\rhe' is not one piece without spaces"),
    "fairseq's": ("vocab.txt", b"[PAD]\n<pad>\n", "line 2: <pad> is a special symbol of fairseq"),
    "no symbol": ("vocab.txt", b"[PAD]\nthe\n", "vocab.txt: there is no [CLS]: a vocabulary of BERT's word pieces has"),
    "bytes": ("vocab.txt", b"\xff\n", "vocab.txt: not UTF-8 (invalid start byte)"),
    "settings": ("tokenizer_config.json", b'{"do_lower_case": "no"}', "do_lower_case must be true or false, not 'no'"),
}


def assert_refused_whole(tmp_path, capsys, message):
    assert message in failure(capsys, "convert", tmp_path / "theirs", "--to", "plugin", "--out", tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


@pytest.mark.parametrize("case", WRONG_CONFIG)
def test_a_config_that_cannot_be_carried_is_refused_in_one_line(case, tmp_path, capsys):
    changes, message = WRONG_CONFIG[case]
    folder(tmp_path / "theirs", **{"kind": "bert", **changes})
    assert_refused_whole(tmp_path, capsys, message)


@pytest.mark.parametrize("case", WRONG_WEIGHTS)
def test_weights_that_do_not_fit_are_refused_in_one_line(case, tmp_path, capsys):
    weights, message = WRONG_WEIGHTS[case]
    folder(tmp_path / "theirs", "bert", weights)
    assert_refused_whole(tmp_path, capsys, message)


@pytest.mark.parametrize("case", WRONG_FILES)
def test_hostile_files_are_refused_in_one_line(case, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where a program would leave its file
    name, content, message = WRONG_FILES[case]
    (folder(tmp_path / "theirs", "bert") / name).write_bytes(content)
    assert_refused_whole(tmp_path, capsys, message)


def test_angles_in_half_precision_are_roformers():
    config = read_configuration({"model_type": "roformer", "vocab_size": 30, "pad_token_id": 0}, Path("config.json"))
    for dtype in (torch.float16, torch.bfloat16):
        names._check_angles(names.angles(config).to(dtype), config, "here")


def test_rotated_values_and_other_angles_are_refused(tmp_path, capsys):
    folder(tmp_path / "theirs", "roformer", rotary_value=True)
    assert_refused_whole(tmp_path, capsys, "rotary_value is True: it must be false")
    angles = {"roformer.encoder.embed_positions.weight": torch.ones(32, 8)}
    other = folder(tmp_path / "other", "roformer", {**tensors("roformer"), **angles})
    message = failure(capsys, "convert", other, "--to", "plugin", "--out", tmp_path / "run")
    assert "has other angles than RoFormer's" in message
    huge = folder(tmp_path / "huge", "roformer", {**tensors("roformer"), **angles}, max_position_embeddings=2**31 - 1)
    message = failure(capsys, "convert", huge, "--to", "plugin", "--out", tmp_path / "run")
    assert "max_position_embeddings is 2147483647: it must be a whole number from 1 to 1,048,576" in message


def test_truncated_safetensors_are_refused(tmp_path, capsys):
    library = pytest.importorskip("safetensors.torch")
    theirs = folder(tmp_path / "theirs", "bert")
    library.save_file(tensors("bert"), theirs / "model.safetensors")
    whole = (theirs / "model.safetensors").read_bytes()
    for size in (4, 100, len(whole) - 8):
        (theirs / "model.safetensors").write_bytes(whole[:size])
        assert_refused_whole(tmp_path, capsys, "model.safetensors: damaged (")
    (theirs / "model.safetensors").write_bytes(whole)
    assert convert(theirs, "--to", "plugin", "--out", tmp_path / "run") == 0


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path, capsys):
    theirs = folder(tmp_path / "theirs", "bert")
    with full_disk(tmp_path / "full", 8192) as disk:
        message = failure(capsys, "convert", theirs, "--to", "plugin", "--out", disk / "run")
        assert f"error: {disk / 'run'}" in message and ("No space left" in message or "is there room?" in message)
        assert [path.name for path in disk.iterdir()] == ["fill"]


def test_wrong_calls_are_refused(converted, tmp_path, capsys):
    here, there = ("--to", "plugin", "--out"), ("--to", "hugging-face", "--out", tmp_path / "back")
    assert "exists already" in failure(capsys, "convert", tmp_path / "theirs", *here, converted)
    assert "no such checkpoint" in failure(capsys, "convert", tmp_path, *there)
    assert "config.json: missing" in failure(capsys, "convert", tmp_path, *here, tmp_path / "again")
    assert "only those convert" in failure(capsys, "convert", converted, *here, tmp_path / "again")
    state = load_checkpoint(converted / "checkpoint.pt")
    changes = dict(
        encoder_position=("tupe_a", "--encoder-position tupe_a cannot be converted: RoFormer has rope, BERT learned"),
        encoder_normalize_before=(True, "--encoder-normalize-before must be False as in BERT, not True"),
        activation_fn=("relu_squared", "--activation-fn relu_squared must be one of gelu, relu"),
        arch=("roformer_tiny", "'roformer_tiny' is not a masked language model of this plugin"),
    )
    hostile = dict(
        encoder_position=(["rope"], "--encoder-position ['rope'] cannot be converted"),
        arch=(["a"], "['a'] is not a masked language model of this plugin"),
    )
    for name, (value, message) in [*changes.items(), *hostile.items()]:
        cfg = argparse.Namespace(**{**vars(state["cfg"]["model"]), name: value})
        save_checkpoint({**state, "cfg": {**state["cfg"], "model": cfg}}, converted / "other.pt")
        assert message in failure(capsys, "convert", converted / "other.pt", *there)
    (converted / "vocab.txt").write_text("\n".join(["more", *PIECES]))
    assert "vocab.txt and dict.txt have different words" in failure(capsys, "convert", converted, *there)
    (converted / "vocab.txt").unlink()
    assert "vocab.txt: missing: only models of BERT's word pieces" in failure(capsys, "convert", converted, *there)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "theirs"]
