"""Binarisation in shards: the files of fairseq-preprocess, what survives a kill."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.corpus.binarize import binarize

from ...commands import ENVIRONMENT, ROOT, run

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


@pytest.mark.parametrize("workers,lines", [(1, 200000), (2, 110)])
def test_the_files_are_those_of_fairseq_preprocess_byte_by_byte(text, tmp_path, workers, lines):
    plain = [Path(sys.executable).parent / "fairseq-preprocess", "--source-lang", "en", "--target-lang", "de"]
    prefixes = ["--trainpref", text / "train.clean", "--validpref", text / "valid", "--testpref", text / "test"]
    options = ["--joined-dictionary", *prefixes, "--destdir", tmp_path / "plain"]
    subprocess.run([str(c) for c in [*plain, *options]], check=True, capture_output=True)
    counts = binarize(text, ("en", "de"), SUBSETS, tmp_path / "bin", workers, lines)
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
    binarize(text, ["en"], SUBSETS, tmp_path / "bin", 1, 500)
    expected = {path.name: path.read_bytes() for path in (tmp_path / "plain").iterdir() if path.suffix != ".log"}
    assert {path.name: path.read_bytes() for path in (tmp_path / "bin").iterdir()} == expected
    assert set(expected) == {"dict.txt", *(f"{name}.{kind}" for name in SUBSETS for kind in ("bin", "idx"))}


@pytest.mark.slow
@pytest.mark.parametrize("workers", [2, 7])  # with another number of workers the shards are others
def test_a_killed_run_goes_on_where_it_was_and_leaves_no_process(text, tmp_path, workers):
    parts, train = tmp_path / "bin.shards", text / "train.clean.en"
    train.write_text(train.read_text(encoding="utf-8") * 30, encoding="utf-8")
    for lang in ("en", "de"):
        (text / f"train.clean.{lang}").write_text("a b c d e f g h i j\n" * 30000)
    call = f"binarize(Path({str(text)!r}), ('en', 'de'), {SUBSETS}, Path({str(tmp_path / 'bin')!r}), 2, 1000)"
    program = f"from pathlib import Path; from pipeline.corpus.binarize import binarize; {call}"
    process = subprocess.Popen([sys.executable, "-c", program], env=ENVIRONMENT)
    while len(_finished(parts)) < 2:
        assert process.poll() is None
        time.sleep(0.01)
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(children) >= 2 and 2 <= len(_finished(parts)) < 60 and not (tmp_path / "bin").exists()
    counts = binarize(text, ("en", "de"), SUBSETS, tmp_path / "bin", workers, 1000)
    assert [counts["train"][lang]["sentences"] for lang in ("en", "de")] == [30000, 30000]
    time.sleep(1.5)
    assert not [child for child in children if Path(f"/proc/{child}/cmdline").exists() and _alive(child)]


def _finished(parts):
    return [path for path in parts.glob("*/train.*.0*") if path.suffix[1:].isdigit()]


def _alive(pid):
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
