"""Preparation of raw text: its numbers, what it equals, what it refuses."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from pipeline.corpus.options import parse
from pipeline.translation.translator import Translator

from ..commands import ENVIRONMENT, ROOT, SMALL, one_line, prepare, run
from ..disks import read_only

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


def test_what_is_prepared_may_be_read_only(corpus, data, tmp_path):
    copy = shutil.copytree(data, tmp_path / "data")
    sets = [word for name in ("train", "valid", "test") for word in (f"--{name}", str(corpus / name))]
    prepare(corpus, copy)
    with read_only(copy):
        assert "done before" in prepare(corpus, copy).stderr
        one_line(run("scripts/prepare.sh", *sets, "--out", copy, fails=True), ".json: Read-only file system")


@pytest.mark.parametrize("folder", ["raw", "bin"])
def test_folders_of_the_users_own_are_not_replaced(corpus, tmp_path, folder):
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "notes").write_text("mine")
    failed = prepare(corpus, tmp_path, fails=True)
    one_line(failed, f"{folder} would be replaced, and no preparation has made it: choose another --out")
    text = ["--train", corpus / "train.en", "--hold-out", 5, "--out", tmp_path]
    one_line(run("scripts/prepare_text.sh", *text, fails=True), "would be replaced", "choose another --out")
    assert [path.name for path in tmp_path.rglob("*")] == [folder, "notes"]


def test_text_in_a_folder_that_would_be_replaced_is_refused(corpus, data, tmp_path):
    copy = shutil.copytree(data, tmp_path / "data")
    (copy / "raw/notes").write_text("mine")
    sets = [word for name in ("train", "valid", "test") for word in (f"--{name}", copy / "raw" / name)]
    message = "train.en is in a folder that would be replaced: choose another --out"
    one_line(run("scripts/prepare.sh", *sets, "--out", copy, fails=True), message)
    bin_ = ["--binarized", copy / "bin", "--subwords", "none", "--out", copy]
    one_line(run("scripts/prepare.sh", *bin_, fails=True), "bin is in a folder that would be replaced")
    text = ["--train", copy / "raw/train.en", "--hold-out", 5, "--out", copy]
    one_line(run("scripts/prepare_text.sh", *text, fails=True), message)
    assert (copy / "raw/notes").read_text() == "mine"


def test_numbers_that_were_lost_are_made_again(corpus, data, tmp_path):
    copy = shutil.copytree(data, tmp_path / "data")
    before = json.loads((copy / "prepare.json").read_text())
    (copy / "raw/train.json").unlink()
    (copy / "binarize.json").write_text("")
    failed = prepare(corpus, copy, fails=True)
    one_line(failed, "binarize.json is not JSON, or damaged: remove it and run the script again")
    (copy / "binarize.json").unlink()
    prepare(corpus, copy)
    assert json.loads((copy / "prepare.json").read_text())["pairs"] == before["pairs"]


def test_one_language_is_refused_and_no_more_work_than_cores(corpus, tmp_path, capsys):
    tools = ["--tokenize", "cat", "--apply-bpe", "cat", "--"]
    sets = [word for name in ("train", "valid", "test") for word in (f"--{name}", str(corpus / name))]
    with pytest.raises(SystemExit) as ended:
        parse([*tools, *sets, "--out", str(tmp_path), "--target", "en"])
    assert ended.value.code == 2 and "--source and --target are both 'en': name two" in capsys.readouterr().err
    cores = os.cpu_count()
    assert parse([*tools, *sets, "--out", str(tmp_path), "--workers", "9999"]).workers == cores
    assert f"--workers 9999: this machine has {cores} cores, and as many work\n" in capsys.readouterr().err
    assert parse([*tools, *sets, "--out", str(tmp_path), "--workers", "1"]).workers == 1


@pytest.mark.parametrize(
    "kind,message",
    [
        ("lines", "the two sides must be aligned"),
        ("utf-8", "line 3: not UTF-8"),
        ("empty", "are empty"),
        ("missing", "train.de not found"),
        ("long", "line 2: longer than 100,000 bytes"),
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
    elif kind == "long":
        file.write_bytes(b"a\n" + b"b" * 100001 + b"\nc\n")
    elif kind == "lines":
        file.write_bytes(file.read_bytes() + b"noch eine\n")
    else:
        file.write_bytes(b"a\nb\n\xff\n")
    one_line(prepare(bad, tmp_path / "out", fails=True), message)
    assert not (tmp_path / "out").exists()


ODD = [
    "ein-zwei - drei-vier-f\u00fcnf",
    "\u201eZitat\u201c \u2013 Gedanke\u2026 &amp; a|b [c] <d>",
    "x\u00a0y  z\u3000w \u200b",
    "3,5 %-Marke z.B. d.h.",
    "@-@ @@ @",
]


@pytest.fixture(scope="module")
def odd_corpus(corpus, tmp_path_factory):
    """The corpus with lines at which tools differ, in three files of more than one shard for two processes."""
    folder = tmp_path_factory.mktemp("odd")
    for name in ("train", "valid", "test"):
        for lang in ("en", "de"):
            text = (corpus / f"{name}.{lang}").read_text(encoding="utf-8")
            (folder / f"{name}.{lang}").write_text("\n".join(ODD) + "\n" + text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def whole(odd_corpus, tmp_path_factory):
    """It prepared without a disturbance."""
    out = tmp_path_factory.mktemp("whole") / "data"
    prepare_odd(odd_corpus, out)
    return out


def odd_preparation(corpus, out, *options):
    parts = [word for name in ("train", "valid", "test") for word in (f"--{name}", corpus / name)]
    return ["scripts/prepare.sh", *parts, "--merges", 100, "--ratio", 3, "--workers", 2, "--out", out, *options]


def prepare_odd(*args):
    return run(*odd_preparation(*args))


@pytest.mark.parametrize("hyphens,threshold", [("split", 0), ("kept", 7)])
def test_the_whole_chain_equals_the_libraries_own_commands_byte_by_byte(odd_corpus, tmp_path, hyphens, threshold):
    ours, plain = tmp_path / "ours", tmp_path / "plain"
    options = ["--keep-hyphens"] if hyphens == "kept" else []
    prepare_odd(odd_corpus, ours, *options, *(["--vocabulary-threshold", threshold] if threshold else []))
    tokenize = ["tokenize"] if hyphens == "kept" else ["tokenize", "-a"]
    for folder in ("tok", "bpe"):
        (plain / folder).mkdir(parents=True)

    def filtered(source, target, *command):
        with source.open("rb") as lines, target.open("wb") as output:
            subprocess.run([str(c) for c in command], stdin=lines, stdout=output, check=True, env=ENVIRONMENT)

    files = [f"{name}.{lang}" for name in ("train", "valid", "test") for lang in ("en", "de")]
    for file in files:
        moses = ["sacremoses", "-q", "-l", file[-2:], "-j", "1", "normalize", "-c", *tokenize]
        filtered(odd_corpus / file, plain / "tok" / file, *moses)
    sides = [plain / f"tok/train.{lang}" for lang in ("en", "de")]
    vocabularies = [plain / f"vocabulary.{lang}" for lang in ("en", "de")]
    learn = ["subword-nmt", "learn-joint-bpe-and-vocab", "-s", 100, "-o", plain / "bpecodes", "--input", *sides]
    run(*learn, "--write-vocabulary", *vocabularies)
    for file in files:
        apply = ["subword-nmt", "apply-bpe", "--codes", plain / "bpecodes"]
        if threshold:
            apply += ["--vocabulary", plain / f"vocabulary.{file[-2:]}", "--vocabulary-threshold", threshold]
        filtered(plain / "tok" / file, plain / "bpe" / file, *apply)
    for file in ("bpecodes", *(f"tok/{f}" for f in files), *(f"bpe/{f}" for f in files)):
        assert (ours / file).read_bytes() == (plain / file).read_bytes(), file
    prefixes = ["--trainpref", ours / "bpe/train.clean"]
    prefixes += ["--validpref", ours / "bpe/valid", "--testpref", ours / "bpe/test"]
    pair = ["--source-lang", "en", "--target-lang", "de", "--joined-dictionary"]
    run("fairseq-preprocess", *pair, *prefixes, "--destdir", plain / "bin", "--workers", 1)
    for file in (plain / "bin").glob("*.en*"):
        assert (ours / "bin" / file.name).read_bytes() == file.read_bytes(), file
    if threshold:  # it splits something
        rare = [line.split() for line in vocabularies[1].read_text(encoding="utf-8").splitlines()]
        assert any(int(count) < threshold for _, count in rare)
        assert (ours / "bpe/train.de").read_bytes() != _applied(plain, "train.de")


def _applied(folder, file):
    command = ["subword-nmt", "apply-bpe", "--codes", str(folder / "bpecodes")]
    text = (folder / "tok" / file).read_bytes()
    return subprocess.run(command, input=text, capture_output=True, check=True, env=ENVIRONMENT).stdout


def test_text_is_split_for_translation_as_for_training(odd_corpus, tmp_path):
    data, out = tmp_path / "data", tmp_path / "run"
    prepare_odd(odd_corpus, data, "--keep-hyphens", "--vocabulary-threshold", 7)
    options = ["--data", data, "--arch", "roformer_tiny", "--out", out, "--max-update", 1, "--save-every", 1]
    run("scripts/train.sh", *options, "--", *SMALL, "--max-tokens", 600)
    run("scripts/average.sh", "--run", out, "--data", data, "--last", 1)
    translator = Translator(out)
    raw, expected = ((data / name / "test.en").read_text(encoding="utf-8").split("\n")[:-1] for name in ("raw", "bpe"))
    assert translator.processing.split(raw) == expected


def test_a_kill_at_any_moment_leaves_what_a_rerun_completes(odd_corpus, whole, tmp_path):
    killed = tmp_path / "killed"
    command = [str(word) for word in odd_preparation(odd_corpus, killed)]
    for moment in ("tok/train.de.shards", ".bpecodes.*.tmp", "bpe/train.en.shards", "bin.shards"):
        process = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stderr=subprocess.PIPE, start_new_session=True)
        while not list(killed.glob(moment)) and process.poll() is None:
            time.sleep(0.005)
        assert process.poll() is None, moment
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert not (killed / "prepare.json").exists(), moment
    prepare_odd(odd_corpus, killed)
    for folder in ("tok", "bpe", "bin"):
        files = [path for path in (whole / folder).iterdir() if not path.name.startswith(".")]
        assert sorted(p.name for p in (killed / folder).iterdir() if p.name[0] != ".") == sorted(p.name for p in files)
        assert all((killed / folder / path.name).read_bytes() == path.read_bytes() for path in files)


def test_the_filtered_newstest2014_is_refused(corpus, tmp_path):
    for lang in ("en", "de"):
        (tmp_path / f"newstest2014.{lang}").write_text("x\n" * 2737)
    sets = ["--train", corpus / "train", "--valid", corpus / "valid", "--test", tmp_path / "newstest2014"]
    one_line(run("scripts/prepare.sh", *sets, "--out", tmp_path / "out", fails=True), "2737 lines are the filtered")
    assert not (tmp_path / "out").exists()


def test_no_room_is_said_before_anything_is_written(corpus, tmp_path):
    huge = shutil.copytree(corpus, tmp_path / "huge")
    with (huge / "train.en").open("r+b") as file:
        file.truncate(1 << 43)  # sparse: 8 TiB on no disk, and 56 are needed
    failed = prepare(huge, tmp_path / "out", fails=True)
    one_line(failed, "MiB free, and about", "make room or choose another --out")
    assert not (tmp_path / "out").exists()
