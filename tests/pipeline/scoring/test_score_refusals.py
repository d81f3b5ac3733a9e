"""What scoring refuses before it translates, and what it leaves where it fails on the way."""

import argparse

import pytest
import torch
from fairseq import options
from fairseq.dataclass.utils import gen_parser_from_dataclass

from fairseq_rope.decoding.task import FastTranslationConfig
from pipeline.scoring import score as command
from pipeline.settings import check_data
from pipeline.steps import stamp_path

from ...disks import full_disk
from ...helpers import Malicious
from .fake import SENTENCES, TOKENS, WORSE, printed, refused


@pytest.mark.parametrize(
    ("missing", "parts"),
    [
        ("run/checkpoint.pt", ["has no checkpoint.pt: run scripts/average.sh --run"]),
        ("data/.stamps/binarize.json", ["data/.stamps/binarize.json is missing or damaged: copy hidden files, too"]),
        ("data/raw/test.en", ["has no raw text of 'test' (test.en): run scripts/prepare.sh"]),
        ("data/raw/test.de", ["has no raw text of 'test' (test.de): run scripts/prepare.sh"]),
    ],
)
def test_what_is_missing_is_named(fake, missing, parts):
    (fake.folder / missing).unlink()
    refused(fake, parts=parts)
    assert not fake.calls


def test_a_test_set_that_is_not_there_is_answered_with_those_that_are(fake):
    for name in ("test.en-de.en.idx", "valid.en-de.de.idx", "test1.en-de.de.idx"):
        (fake.data / "bin" / name).touch()
    for name in ("tset", "../../run/test", ""):
        refused(fake, "--subset", name, parts=[f"has no test set '{name}'; there are: test test1 valid"])
    assert not fake.calls


def test_a_run_of_other_data_is_refused(fake):
    check_data(fake.run, fake.data)
    stamp = stamp_path(fake.data, "binarize")
    stamp.write_text('{"settings": "input y"}')
    refused(fake, parts=["was trained on other data than", "give the folder it was trained on"])
    (fake.run / "settings").unlink()
    check_data(fake.run, fake.data)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--beam", "0"], "--beam: must be a whole number, at least 1, not '0'"),
        (["--max-tokens", "x"], "--max-tokens: must be a whole number"),
        (["--lenpen", "nan"], "--lenpen: must be a number from -10 to 10, not 'nan'"),
        (["--lenpen", "1e3"], "--lenpen: must be a number from -10 to 10, not '1e3'"),
        (["--lenpen", "10.5"], "--lenpen: must be a number from -10 to 10, not '10.5'"),
        (["--beam", "100000"], "--beam: must be a whole number, at most 1,000, not '100000'"),
        (["--max-tokens", "9" * 5000], "--max-tokens: must be a whole number, at most 1,000,000,000, not '999"),
        (["--nonsense"], "--nonsense"),
        (["--", "--nbest", "4"], "--nbest does not go behind --"),
        (["--", "--results-path=x"], "--results-path does not go behind --"),
        (["--", "--prefix-size", "3"], "--prefix-size does not go behind --"),
        (["--", "--shard-id", "1"], "--shard-id does not go behind --"),
        (["--", "--fp16", "--beam=5"], "--beam does not go behind --: use the option --beam"),
        (["--", "--gen-subset", "test1"], "--gen-subset does not go behind --: use the option --subset"),
        (["--", "-t", "en"], "-t does not go behind --"),
    ],
)
def test_wrong_options_and_flags_that_contradict_or_cannot_be_scored_are_refused(fake, capsys, words, message):
    with pytest.raises(SystemExit) as ended:
        command.main(fake.arguments(*words))
    error = capsys.readouterr().err
    assert ended.value.code == 2 and message in error and error.count("\n") == 1 and not fake.calls


def test_flags_of_the_search_are_flags_of_fairseq_generate():
    parser = options.get_generation_parser()
    gen_parser_from_dataclass(parser, FastTranslationConfig())
    assert set(command.OF_THE_SEARCH) <= parser._option_string_actions.keys()


@pytest.mark.parametrize(
    ("file", "lines", "parts"),
    [
        ("output4", [printed(WORSE[:2], TOKENS[:2])], ["gen.txt is incomplete: it has 2 hypotheses for 3 sentences"]),
        ("data/raw/test.en", ["one"], ["raw/test.en has 1 lines", "raw/test.de 3"]),
        (
            "data/raw/test.de",
            [SENTENCES[i] for i in (1, 0, 2)],
            ["raw/test.de: 2 of 3 lines are not the text that was"],
        ),
    ],
)
def test_files_that_do_not_fit_leave_no_scores(fake, file, lines, parts):
    path = fake.folder / file
    right = path.read_bytes()
    path.write_text("".join(f"{line}\n" for line in lines))
    refused(fake, parts=parts)
    assert not (fake.run / "scores/test.json").exists() and not stamp_path(fake.run, "score-test").exists()
    path.write_bytes(right)
    command.main(fake.arguments())
    assert fake.result()["sentences"] == 3


def test_a_scoring_that_fails_leaves_the_one_before_as_it_was(fake, capsys):
    command.main(fake.arguments())
    first = capsys.readouterr().out
    (fake.folder / "status").write_text("1")
    refused(fake, "--", "--unkpen", "-1", parts=["checkpoint.pt: "])
    (fake.folder / "output2").write_text(printed(WORSE[:2], TOKENS[:2]))
    (fake.folder / "status").write_text("0")
    refused(fake, "--beam", "2", parts=["is incomplete"])
    command.main(fake.arguments())
    assert capsys.readouterr().out == first


def saved(path, **entries):
    torch.save({"model": {}, "args": argparse.Namespace(), **entries}, path)


def test_a_failure_is_the_last_error_of_the_log(fake):
    saved(fake.run / "checkpoint.pt")
    (fake.folder / "status").write_text("1")
    (fake.folder / "stderr").write_text("Traceback\nRuntimeError: out of luck\nbye\n")
    refused(fake, parts=["failed: RuntimeError: out of luck (log: ", "scores/test.log)"])
    (fake.folder / "stderr").write_text("")
    refused(fake, parts=["failed: no reason given"])
    program = fake.folder / "fairseq-generate"
    program.write_text(program.read_text().replace("sys.exit(", "os.kill(os.getpid(), 9) or sys.exit("))
    refused(fake, parts=["failed: ended by signal SIGKILL"])


@pytest.mark.parametrize("kind", ["truncated", "malicious"])
def test_a_failure_by_the_checkpoints_fault_says_so(fake, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    path = fake.run / "checkpoint.pt"
    saved(path, **({"extra": Malicious()} if kind == "malicious" else {}))
    path.write_bytes(path.read_bytes()[: 300 if kind == "truncated" else None])
    (fake.folder / "status").write_text("1")
    reason = {"truncated": "damaged or not a checkpoint", "malicious": "it holds objects that could run code"}[kind]
    refused(fake, parts=[f"{path}: ", reason])
    assert not (tmp_path / "harmed").exists()


def test_the_program_may_run_no_code_of_a_checkpoint(fake):
    program = fake.folder / "fairseq-generate"
    checks = "import os; assert os.environ['TORCH_FORCE_WEIGHTS_ONLY_LOAD'] == '1'"
    program.write_text(program.read_text().replace("\n", f"\n{checks}\n", 1))
    command.main(fake.arguments())


def test_a_disk_that_is_full_is_the_reason_of_a_program_that_could_give_none(fake):
    saved(fake.run / "checkpoint.pt")
    (fake.folder / "status").write_text("1")
    (fake.folder / "output4").write_text("")
    with full_disk(fake.run / "scores", 0):
        refused(fake, parts=[f"failed: no room is left in {fake.run / 'scores'}: make room (log: "])
