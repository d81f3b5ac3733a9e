"""Preparation of raw text: its numbers, what it equals, what it refuses."""

import hashlib
import json
import shutil

import pytest

from .commands import one_line, prepare


def test_preparation_keeps_its_numbers(corpus, data):
    info = json.loads((data / "prepare.json").read_text())
    assert info["pairs"] == {"train": 400, "valid": 21, "test": 21, "test1": 9} and info["merges"] == "100"
    kept = info["cleaned"]["kept"]
    assert kept + sum(n for name, n in info["cleaned"].items() if name.startswith("dropped")) == 400
    assert info["binarised"]["train"]["en"]["sentences"] == kept
    assert info["vocabulary"] == len((data / "bin/dict.en.txt").read_text(encoding="utf-8").splitlines())
    words = sum(len(line.split()) for line in (data / "tok/train.de").read_text(encoding="utf-8").split("\n"))
    assert info["bpe"]["words"]["train.de"]["tokens"] == words
    digest = hashlib.sha256((corpus / "train.en").read_bytes()).hexdigest()
    assert info["sha256"]["train.en"] == digest and "subword-nmt" in info["versions"]


@pytest.mark.parametrize(
    "kind,message",
    [
        ("lines", "the two sides must be aligned"),
        ("utf-8", "line 3: not UTF-8"),
        ("empty", "are empty"),
        ("missing", "train.de not found"),
    ],
)
def test_prepare_refuses_bad_text_and_leaves_nothing(corpus, tmp_path, kind, message):
    bad = tmp_path / "bad"
    shutil.copytree(corpus, bad)
    file = bad / "train.de"
    if kind == "missing":
        file.unlink()
    elif kind == "empty":
        file.write_bytes(b"")
        (bad / "train.en").write_bytes(b"")
    elif kind == "lines":
        file.write_bytes(file.read_bytes() + b"noch eine\n")
    else:
        file.write_bytes(b"a\nb\n\xff\n")
    one_line(prepare(bad, tmp_path / "out", fails=True), message)
    left = [p for p in (tmp_path / "out").rglob("*") if p.is_file()] if (tmp_path / "out").exists() else []
    assert left == []
