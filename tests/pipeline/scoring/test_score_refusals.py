"""What scoring refuses before it translates, and what it leaves where it fails on the way."""

import argparse

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import gen_parser_from_dataclass

from fairseq_rope.decoding.task import FastTranslationConfig
from pipeline.files import write_json
from pipeline.scoring import score as command
from pipeline.steps import stamp_path

from ...helpers import Malicious
from .fake import SENTENCES, TOKENS, WORSE, printed, refused


@pytest.mark.parametrize(
    ("change", "options", "part"),
    [
        (lambda folder: (folder / "run/checkpoint.pt").unlink(), (), "scripts/average.sh"),
        (lambda folder: (folder / "data/.stamps/binarize.json").unlink(), (), "copy hidden files"),
        (lambda folder: (folder / "data/raw/test.en").unlink(), (), "scripts/prepare.sh"),
        (
            lambda folder: (folder / "data/bin/test1.en-de.en.idx").touch(),
            ("--subset", "tset"),
            "test test1",
        ),
        (lambda folder: write_json(stamp_path(folder / "data", "binarize"), {"settings": "y"}), (), "other data than"),
    ],
)
def test_what_cannot_be_scored_is_named_before_anything_is_translated(fake, change, options, part):
    change(fake.folder)
    refused(fake, *options, parts=[part])
    assert not fake.calls


@pytest.mark.parametrize("flag", ["--nbest", "--prefix-size", "--shard-id", "--beam", "--gen-subset", "-t"])
def test_flags_that_have_an_option_or_change_more_than_the_search_are_refused(fake, capsys, flag):
    with pytest.raises(SystemExit):
        command.main(fake.arguments("--", "--fp16", f"{flag}=1"))
    assert flag in capsys.readouterr().err and not fake.calls


def test_flags_of_the_search_are_flags_of_fairseq_generate():
    parser = options.get_generation_parser()
    gen_parser_from_dataclass(parser, FastTranslationConfig())
    assert set(command.OF_THE_SEARCH) <= parser._option_string_actions.keys()


@pytest.mark.parametrize(
    ("file", "lines", "part"),
    [
        ("output4", [printed(WORSE[:2], TOKENS[:2])], "gen.txt has other hypotheses than those of 3 sentences"),
        ("data/raw/test.en", ["one"], "raw/test.en has 1 lines"),
        ("data/raw/test.de", [SENTENCES[i] for i in (1, 0, 2)], "raw/test.de: 2 of 3 lines"),
    ],
)
def test_files_that_do_not_fit_leave_no_scores(fake, file, lines, part):
    path = fake.folder / file
    right = path.read_bytes()
    path.write_text("".join(f"{line}\n" for line in lines))
    refused(fake, parts=[part])
    assert not (fake.run / "scores/test.json").exists() and not stamp_path(fake.run, "score-test").exists()
    path.write_bytes(right)
    command.main(fake.arguments())
    assert fake.result()["sentences"] == 3


def test_a_scoring_that_fails_leaves_the_one_before_as_it_was(fake, capsys):
    command.main(fake.arguments())
    first = capsys.readouterr().out
    (fake.folder / "status").write_text("1")
    refused(fake, "--beam", "2", parts=["checkpoint.pt: "])
    (fake.folder / "status").write_text("0")
    command.main(fake.arguments())
    assert capsys.readouterr().out == first


def saved(path, **entries):
    torch.save({"model": {}, "args": argparse.Namespace(), **entries}, path)


def test_a_failure_is_the_last_error_of_the_log(fake):
    saved(fake.run / "checkpoint.pt")
    (fake.folder / "status").write_text("1")
    (fake.folder / "stderr").write_text("Traceback\nRuntimeError: out of luck\nbye\n")
    refused(fake, parts=["RuntimeError: out of luck", "scores/test.log"])
    program = fake.folder / "fairseq-generate"
    program.write_text(program.read_text().replace("sys.exit(", "os.kill(os.getpid(), 9) or sys.exit("))
    refused(fake, parts=["SIGKILL"])


@pytest.mark.parametrize("kind", ["truncated", "malicious"])
def test_a_failure_by_the_checkpoints_fault_says_so(fake, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    path = fake.run / "checkpoint.pt"
    saved(path, **({"extra": Malicious()} if kind == "malicious" else {}))
    path.write_bytes(path.read_bytes()[: 300 if kind == "truncated" else None])
    (fake.folder / "status").write_text("1")
    reason = {"truncated": "damaged", "malicious": "it holds objects that could run code"}[kind]
    refused(fake, parts=[f"{path}: ", reason])
    assert not (tmp_path / "harmed").exists()


def test_the_program_may_run_no_code_of_a_checkpoint(fake):
    program = fake.folder / "fairseq-generate"
    checks = "import os; assert os.environ['TORCH_FORCE_WEIGHTS_ONLY_LOAD'] == '1'"
    program.write_text(program.read_text().replace("\n", f"\n{checks}\n", 1))
    command.main(fake.arguments())
