"""Binarisation: the files of fairseq-preprocess."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.corpus.binarize import binarize
from pipeline.text import blocks

from ...commands import ROOT, run

DATA = ROOT / "data/demo"
SUBSETS = {"train": "train.clean", "valid": "valid", "test": "test"}


@pytest.fixture
def text(tmp_path):
    """Tokens of three subsets, with empty lines, rare tokens and the spaces that are not separators of lines."""
    folder = tmp_path / "bpe"
    folder.mkdir()
    for name, count in (("train.clean", 900), ("valid", 31), ("test", 7)):
        for lang in ("en", "de"):
            lines = (DATA / f"train.{lang}").read_text(encoding="utf-8").split("\n")[:count]
            if name == "valid":
                lines += ["", "unseen@@ \u00e4\u00f6 <unk> &lt;unk&gt;"]
            (folder / f"{name}.{lang}").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.mark.parametrize("workers", [1, 2])
def test_the_files_are_those_of_fairseq_preprocess_byte_by_byte(text, tmp_path, monkeypatch, workers):
    monkeypatch.setattr(blocks, "LINES", 110)
    plain = [Path(sys.executable).parent / "fairseq-preprocess", "--source-lang", "en", "--target-lang", "de"]
    prefixes = ["--trainpref", text / "train.clean", "--validpref", text / "valid", "--testpref", text / "test"]
    options = ["--joined-dictionary", *prefixes, "--destdir", tmp_path / "plain"]
    subprocess.run([str(c) for c in [*plain, *options]], check=True, capture_output=True)
    counts = binarize(text, ("en", "de"), SUBSETS, tmp_path / "bin", workers)
    expected = {path.name: path.read_bytes() for path in (tmp_path / "plain").iterdir() if path.suffix != ".log"}
    assert {path.name: path.read_bytes() for path in (tmp_path / "bin").iterdir()} == expected
    tokens = sum(len(line.split()) + 1 for line in (text / "train.clean.de").read_text(encoding="utf-8").splitlines())
    assert counts["train"]["de"] == {"sentences": 900, "tokens": tokens, "unknown": 0}
    assert counts["valid"]["en"]["unknown"] >= 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "bpe", "plain"]


def test_one_language_has_the_files_of_a_language_model(text, tmp_path):
    prefixes = [
        "--trainpref",
        text / "train.clean.en",
        "--validpref",
        text / "valid.en",
        "--testpref",
        text / "test.en",
    ]
    run("fairseq-preprocess", "--only-source", *prefixes, "--destdir", tmp_path / "plain")
    binarize(text, ["en"], SUBSETS, tmp_path / "bin", 1)
    expected = {path.name: path.read_bytes() for path in (tmp_path / "plain").iterdir() if path.suffix != ".log"}
    assert {path.name: path.read_bytes() for path in (tmp_path / "bin").iterdir()} == expected
    assert set(expected) == {"dict.txt", *(f"{name}.{kind}" for name in SUBSETS for kind in ("bin", "idx"))}
