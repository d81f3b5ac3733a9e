"""Hugging Face's folders that cannot be carried, damaged and hostile ones: refused in one line, and nothing is left."""

import argparse
import pickle
import shutil

import torch

from fairseq_rope.checkpoints.files import load_checkpoint, save_checkpoint
from fairseq_rope.checkpoints.hugging_face import names

from ..commands import failure
from ..helpers import Malicious
from .hugging_face import PIECES, folder, tensors

QUERY = "bert.encoder.layer.1.attention.self.query.weight"
HEAD = "cls.predictions.decoder"
REFUSED = [
    ("model_type", dict(model_type="gpt2")),
    ("embedding_size", dict(embedding_size=8)),
    ("hidden_act", dict(hidden_act="silu")),
    ("position_embedding_type", dict(position_embedding_type="relative_key")),
    ("is_decoder", dict(is_decoder=True)),
    ("vocab.txt", dict(vocab_size=99)),
    ("rotary_value", dict(kind="roformer", rotary_value=True)),
    (QUERY, {QUERY: None}),
    (QUERY, {QUERY: torch.zeros(8, 16)}),
    ("NaN", {"cls.predictions.bias": torch.full((23,), torch.nan)}),
    ("classifier", dict(classifier=torch.zeros(2))),
    ("tie_word_embeddings", {f"{HEAD}.weight": torch.zeros(23, 16)}),
    (f"{HEAD}.bias", {f"{HEAD}.bias": torch.zeros(23)}),
    ("refused", {"pytorch_model.bin": pickle.dumps(Malicious())}),
    ("damaged", {"pytorch_model.bin": b"PK\x03\x04 half"}),
    ("max_shard_size", {"pytorch_model.bin.index.json": b"{}"}),
    ("config.json", {"config.json": b"{"}),
    ("line 3", {"vocab.txt": b"[PAD]\nthe\nthe\n"}),
    ("[CLS]", {"vocab.txt": b"[PAD]\nthe\n"}),
]
"""A part of the message, and what is wrong: entries of config.json, tensors (None: missing), or bytes of files."""


def assert_refused_whole(tmp_path, capsys, reason):
    assert reason in failure(capsys, "convert", tmp_path / "theirs", "--to", "plugin", "--out", tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_folders_that_cannot_be_carried_and_hostile_ones_are_refused_in_one_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where a program would leave its file
    for reason, changes in REFUSED:
        (name, value), *_ = changes.items()
        weights, config = tensors("bert"), {}
        if value is None or torch.is_tensor(value):
            weights = {key: tensor for key, tensor in {**weights, **changes}.items() if tensor is not None}
        elif not isinstance(value, bytes):
            config = changes
        theirs = folder(tmp_path / "theirs", **{"kind": "bert", "weights": weights, **config})
        if isinstance(value, bytes):
            (theirs / name).write_bytes(value)
        assert_refused_whole(tmp_path, capsys, reason)
        shutil.rmtree(theirs)


def test_angles_are_roformers_also_in_half_precision(tmp_path, capsys):
    cfg = argparse.Namespace(encoder_embed_dim=768, encoder_attention_heads=12, max_positions=1536)
    for dtype in (torch.float16, torch.bfloat16):
        names._check_angles(names.angles(cfg).to(dtype), cfg, "here")
    angles = {"roformer.encoder.embed_positions.weight": torch.ones(32, 8)}
    folder(tmp_path / "theirs", "roformer", {**tensors("roformer"), **angles})
    assert_refused_whole(tmp_path, capsys, "angles")


def test_models_that_the_library_lacks_are_refused(converted, tmp_path, capsys):
    there = ("--to", "hugging-face", "--out", tmp_path / "back")
    state = load_checkpoint(converted / "checkpoint.pt")
    changes = dict(encoder_position="tupe_a", encoder_normalize_before=True, arch="roformer_tiny", position_gap=2)
    for name, value in changes.items():
        cfg = argparse.Namespace(**{**vars(state["cfg"]["model"]), name: value})
        save_checkpoint({**state, "cfg": {**state["cfg"], "model": cfg}}, converted / "other.pt")
        assert str(value) in failure(capsys, "convert", converted / "other.pt", *there)
    (converted / "vocab.txt").write_text("\n".join(["more", *PIECES]))
    assert "vocab.txt" in failure(capsys, "convert", converted, *there)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "theirs"]
