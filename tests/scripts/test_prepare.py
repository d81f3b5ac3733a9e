"""Preparation of raw text: its numbers, what it equals, what it refuses."""

import hashlib
import json
import os
import shutil
import signal
import time

import pytest

from pipeline.command import Failure
from pipeline.corpus import prepare as pipeline
from pipeline.corpus import prepare_text
from pipeline.files import read_lines
from pipeline.prepared import read_prepared
from pipeline.settings import data_line
from pipeline.text import text_processing

from ..commands import one_line, prepare, run, start, three_sets

pytestmark = pytest.mark.slow


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
    assert {"bpecodes", "dict.en.txt", "dict.de.txt"} < set(info["sha256"])


def test_the_filtered_newstest2014_is_refused(corpus, tmp_path):
    """Its BLEU would not compare with that of the papers, and nobody would see it."""
    for lang in ("en", "de"):
        (tmp_path / f"newstest2014.{lang}").write_text("x\n" * 2737)
    sets = {"--train": corpus / "train", "--valid": corpus / "valid", "--test": tmp_path / "newstest2014"}
    with pytest.raises(Failure, match="filtered"):
        pipeline.main([str(word) for option in {**sets, "--out": tmp_path / "out"}.items() for word in option])
    assert not (tmp_path / "out").exists()


def test_a_copy_that_is_not_whole_is_refused_and_made_whole(corpus, data, tmp_path):
    copy = shutil.copytree(data, tmp_path / "data")
    train = ["scripts/train.sh", "--data", copy, "--arch", "roformer_tiny", "--out", tmp_path / "run"]
    file = copy / "bin/train.en-de.de.idx"
    content = file.read_bytes()
    file.write_bytes(content[:100])
    one_line(run(*train, fails=True), f"{file} is missing or not whole")
    prepare(corpus, copy)
    assert file.read_bytes() == content and data_line(copy) == data_line(data)
    shutil.rmtree(copy / ".stamps")
    one_line(run(*train, fails=True), "copy hidden files, too")


def test_what_a_preparation_must_not_destroy_is_refused(corpus, data, tmp_path):
    """Folders of the user's own, and text in a folder that would be replaced."""
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/notes").write_text("mine")
    copy = shutil.copytree(data, tmp_path / "data")
    sets = three_sets(copy / "raw")
    text = ["--hold-out", "5", "--train", str(corpus / "train.en"), "--out", str(tmp_path)]
    own = ["--binarized", str(copy / "bin"), "--subwords", "none", "--out", str(copy)]
    for module, words in (
        (pipeline, [*sets, "--out", str(tmp_path)]),
        (pipeline, [*sets, "--out", str(copy)]),
        (pipeline, own),
        (prepare_text, text),
    ):
        with pytest.raises(Failure, match="would be replaced"):
            module.main(words)
    assert [path.name for path in (tmp_path / "raw").iterdir()] == ["notes"]


def test_a_kill_at_any_moment_leaves_what_a_rerun_completes(corpus, data, tmp_path):
    killed = tmp_path / "killed"
    options = ["--test", corpus / "test_long", "--merges", 100, "--ratio", 3, "--workers", 2, "--out", killed]
    for moment in ("tok.tmp/train.de", "tok/test.de", "bpe.tmp/train.en", "bin.tmp/train.*.bin"):
        process = start("scripts/prepare.sh", *three_sets(corpus), *options)
        while not list(killed.glob(moment)) and process.poll() is None:
            time.sleep(0.005)
        assert process.poll() is None, moment
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert not (killed / "prepare.json").exists(), moment
    prepare(corpus, killed)
    for folder in ("tok", "bpe", "bin"):
        made = {path.name: path.read_bytes() for path in (killed / folder).iterdir()}
        assert made == {path.name: path.read_bytes() for path in (data / folder).iterdir()}


@pytest.mark.parametrize("subwords", ["bpe", "sentencepiece"])
def test_new_text_is_split_like_old_text(corpus, tmp_path, subwords):
    """With its codes and dictionaries, also those of a model folder; the old text itself gives the same files."""
    old, again, new = tmp_path / "old", tmp_path / "again", tmp_path / "new"
    more = (
        ["--merges", 100, "--vocabulary-threshold", 20, "--keep-hyphens"]
        if subwords == "bpe"
        else ["--vocabulary", 200]
    )
    sets = three_sets(corpus)
    run("scripts/prepare.sh", *sets, "--out", old, "--subwords", subwords, *more)
    if subwords == "bpe":
        way = text_processing(old, read_prepared(old, ""), "en", "de")
        way.load("")  # as translate.sh does
        assert way.split(read_lines(old / "raw/test.en")) == read_lines(old / "bpe/test.en")
    run("scripts/prepare.sh", *sets, "--out", again, "--like", old)
    for file in (old / "bin").iterdir():
        assert (again / "bin" / file.name).read_bytes() == file.read_bytes(), file.name
    assert data_line(again) != data_line(old)
    model = tmp_path / "model"  # as average.sh makes it
    model.mkdir()
    for file in (old / "prepare.json", *old.glob("*.model"), *old.glob("bpecodes"), *old.glob("vocabulary.*"),
                 *old.glob("bin/dict.*")):  # fmt: skip
        shutil.copy(file, model)
    sets = []
    for name, other in {"train": "valid", "valid": "test", "test": "valid"}.items():
        sets += [f"--{name}", tmp_path / name]
        for lang in ("en", "de"):
            text = (corpus / f"{other}.{lang}").read_text(encoding="utf-8")
            (tmp_path / f"{name}.{lang}").write_text(text.replace("a", "Ω") + f"{name}\n", encoding="utf-8")
    (tmp_path / "tags").write_text("<2de>\n<2fr>\n")
    said = run("scripts/prepare.sh", *sets, "--out", new, "--like", model, "--add-tokens", tmp_path / "tags").stdout
    assert " unknown)" in said and said.count("(0 unknown)") < 6
    for lang in ("en", "de"):
        dictionaries = [(folder / f"bin/dict.{lang}.txt").read_text(encoding="utf-8") for folder in (old, new)]
        assert dictionaries[1] == dictionaries[0] + "<2de> 0\n<2fr> 0\n"
    turned = ["--source", "fr", "--target", "en", "--like", model]
    one_line(run("scripts/prepare.sh", *sets, "--out", new, *turned, fails=True), "no dictionary of fr")
