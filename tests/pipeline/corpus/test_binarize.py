"""Binarisation: the files of fairseq-preprocess."""

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


@pytest.mark.parametrize("langs, workers", [(["en", "de"], 2), (["en"], 1)])
def test_the_files_are_those_of_fairseq_preprocess_byte_by_byte(text, tmp_path, monkeypatch, langs, workers):
    monkeypatch.setattr(blocks, "LINES", 110)
    pair, end = ["--source-lang", "en", "--target-lang", "de", "--joined-dictionary"], ""
    if len(langs) == 1:
        pair, end = ["--only-source"], ".en"
    prefixes = [f"--{subset}pref={text / name}{end}" for subset, name in SUBSETS.items()]
    run("fairseq-preprocess", *pair, *prefixes, "--destdir", tmp_path / "plain")
    counts = binarize(text, langs, SUBSETS, tmp_path / "bin", workers)
    expected = {path.name: path.read_bytes() for path in (tmp_path / "plain").iterdir() if path.suffix != ".log"}
    assert {path.name: path.read_bytes() for path in (tmp_path / "bin").iterdir()} == expected
    tokens = sum(len(line.split()) + 1 for line in (text / "train.clean.en").read_text(encoding="utf-8").splitlines())
    assert counts["train"]["en"] == {"sentences": 900, "tokens": tokens, "unknown": 0}
    assert counts["valid"]["en"]["unknown"] >= 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", "bpe", "plain"]
