"""Joint BPE on several processors: codes and vocabularies of subword-nmt's own command."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline import progress
from pipeline.command import Failure
from pipeline.corpus.bpe import learn

from ...commands import ROOT

DATA = ROOT / "data/demo"


@pytest.mark.parametrize("workers", [1, 3])
def test_the_codes_and_vocabularies_are_those_of_the_librarys_own_command_byte_by_byte(tmp_path, workers):
    paths = []
    for lang in ("en", "de"):
        lines = (DATA / f"train.{lang}").read_text(encoding="utf-8").splitlines(keepends=True)[:600]
        paths.append(tmp_path / f"train.{lang}")
        paths[-1].write_text("".join(["\n", "  \u00e4 \u00e4\u00f6 x\u00a0y \n", *lines]), encoding="utf-8")
    command = [Path(sys.executable).parent / "subword-nmt", "learn-joint-bpe-and-vocab", "--symbols", "90"]
    plain, made = ([tmp_path / f"{name}.{lang}" for lang in ("en", "de")] for name in ("plain", "made"))
    options = ["--input", *paths, "--output", tmp_path / "plain", "--write-vocabulary", *plain]
    subprocess.run([str(c) for c in [*command, *options]], check=True, capture_output=True)
    sizes = learn(paths, 90, tmp_path / "codes", workers, made)
    assert (tmp_path / "codes").read_bytes() == (tmp_path / "plain").read_bytes()
    for path, expected in zip(made, plain):
        counts, known = (sorted(file.read_text(encoding="utf-8").splitlines()) for file in (path, expected))
        assert counts == known  # words of the same count stand in any order
        numbers = [int(line.split()[1]) for line in path.read_text(encoding="utf-8").splitlines()]
        assert numbers == sorted(numbers, reverse=True) and max(numbers) > 1
    words = paths[0].read_text(encoding="utf-8").replace("\n", " ").split(" ")
    assert sizes["words"]["train.en"]["tokens"] == sum(1 for word in words if word)
    assert sizes["merges"] == 90


def test_the_progress_of_learning_has_a_label(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", -1.0)
    (tmp_path / "text").write_text("the man then the man then\n")
    learn([tmp_path / "text"], 3, tmp_path / "codes", 1)
    assert capsys.readouterr().err.splitlines()[:3] == [f"learn-bpe: {i} of 3 merges" for i in (1, 2, 3)]


@pytest.mark.parametrize(
    "text,message", [("\n\n", "nothing to learn BPE from"), ("a b\n", "no word has two characters")]
)
def test_text_without_words_or_pairs_is_refused_and_nothing_is_left(tmp_path, text, message):
    (tmp_path / "a").write_text(text)
    with pytest.raises(Failure, match=message):
        learn([tmp_path / "a"], 5, tmp_path / "codes", 1)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
