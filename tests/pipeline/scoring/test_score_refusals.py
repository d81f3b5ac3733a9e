"""What scoring refuses before it translates, and what it leaves where it fails on the way."""

import argparse

import pytest
import torch

from pipeline.files import write_json
from pipeline.lock import locked
from pipeline.scoring import score as command
from pipeline.steps import stamp_path

from .fake import SENTENCES, TOKENS, WORSE, printed, refused


@pytest.mark.parametrize(
    ("change", "options", "part"),
    [
        (lambda folder: (folder / "run/checkpoint.pt").unlink(), (), "scripts/average.sh"),
        (lambda folder: (folder / "data/raw/test.en").unlink(), (), "scripts/prepare.sh"),
        (lambda folder: None, ("--subset", "tset"), "tset"),
        (lambda folder: write_json(stamp_path(folder / "data", "binarize"), {"settings": "y"}), (), "other data than"),
    ],
)
def test_what_cannot_be_scored_is_named_before_anything_is_translated(fake, change, options, part):
    change(fake.folder)
    refused(fake, *options, parts=[part])
    assert not fake.calls


def test_flags_that_have_an_option_or_change_more_than_the_search_are_refused(fake, capsys):
    for flag in ("--nbest", "--prefix-size", "--beam", "--gen-subset"):
        with pytest.raises(SystemExit):
            command.main(fake.arguments("--", "--fp16", f"{flag}=1"))
        assert flag in capsys.readouterr().err and not fake.calls


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


def test_one_command_at_a_time_scores_a_run(fake, monkeypatch):
    monkeypatch.setattr(command, "locked", lambda folder: locked(folder, wait=0))
    with locked(fake.run):
        refused(fake, parts=["another command works in"])
    assert not fake.calls


def saved(path):
    torch.save({"model": {}, "args": argparse.Namespace()}, path)


def test_a_failure_is_the_last_error_of_the_log_and_leaves_the_scores_before_as_they_were(fake, capsys):
    saved(fake.run / "checkpoint.pt")
    command.main(fake.arguments())
    first = capsys.readouterr().out
    (fake.folder / "status").write_text("1")
    (fake.folder / "stderr").write_text("Traceback\nRuntimeError: out of luck\nbye\n")
    refused(fake, "--beam", "2", parts=["RuntimeError: out of luck", "scores/test.log"])
    (fake.folder / "status").write_text("0")
    command.main(fake.arguments())
    assert capsys.readouterr().out == first


def test_a_failure_by_the_checkpoints_fault_says_so(fake):
    path = fake.run / "checkpoint.pt"
    saved(path)
    path.write_bytes(path.read_bytes()[:300])
    (fake.folder / "status").write_text("1")
    refused(fake, parts=[f"{path}: ", "damaged"])


def test_the_program_may_run_no_code_of_a_checkpoint(fake):
    program = fake.folder / "fairseq-generate"
    checks = "import os; assert os.environ['TORCH_FORCE_WEIGHTS_ONLY_LOAD'] == '1'"
    program.write_text(program.read_text().replace("\n", f"\n{checks}\n", 1))
    command.main(fake.arguments())
