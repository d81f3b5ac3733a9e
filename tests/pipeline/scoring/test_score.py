"""The command: what is done once, what is refused, and what a kill leaves behind."""

import argparse
import os
import resource
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from sacrebleu.metrics import BLEU

from pipeline.command import Failure
from pipeline.files import write_json
from pipeline.lock import locked
from pipeline.scoring import score as command
from pipeline.scoring.statistics import COLUMNS, bleu, rows
from pipeline.settings import check_data
from pipeline.steps import stamp_path

from ...commands import ENVIRONMENT, ROOT
from ...disks import full_disk, read_only
from .fake import FakeRun, printed

REFERENCES = ["Der Hund läuft heute über die Straße.", "Die Katze schläft auf dem Sofa.", "Drei Vögel singen im Baum."]
TARGETS = [f"{line[:-1]} ." for line in REFERENCES]
WORSE = [TARGETS[0], "Die Katze schläft auf dem Dach .", TARGETS[2]]
OUTPUTS = {4: printed(WORSE, TARGETS), 2: printed(TARGETS, TARGETS)}


@pytest.fixture
def fake(tmp_path):
    return FakeRun(tmp_path, REFERENCES, OUTPUTS)


def refused(fake, *options, parts=()):
    with pytest.raises(Failure) as error:
        command.main(fake.arguments(*options))
    assert "\n" not in str(error.value)
    for part in parts:
        assert part in str(error.value), error.value
    assert not list((fake.run / "scores").glob(".*"))


def started(fake, *options, **kwargs):
    """The command in a process of its own."""
    words = [sys.executable, "-m", "pipeline.scoring.score", *fake.arguments(*options)]
    environment = {**ENVIRONMENT, "PYTHONPATH": f"{ROOT}:{ROOT / 'scripts'}", "SCRIPT": "score.sh"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(words, env=environment, text=True, **{**pipes, **kwargs})


def wait_for(path):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.02)


def is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_scores_and_statistics_are_written_together(fake, capsys):
    command.main(fake.arguments("--name", "a run", "--", "--sampling", "--cpu"))
    result = fake.result()
    hypotheses = (fake.run / "scores/test.hyp.de").read_text(encoding="utf-8").splitlines()
    assert hypotheses == [REFERENCES[0], "Die Katze schläft auf dem Dach.", REFERENCES[2]]
    score = BLEU().corpus_score(hypotheses, [REFERENCES]).score
    assert result["scores"]["sacrebleu"]["score"] == round(score, 2) < 100
    assert tuple(result["statistics"]) == COLUMNS and bleu(rows(result["statistics"])) == score
    assert result["statistics"]["source_words"] == [2, 2, 2] and result["sentences"] == 3
    assert (result["name"], result["subset"]) == ("a run", "test")
    assert result["settings"] == "beam 4, lenpen 0.6, --sampling --cpu"
    given = [f"{fake.data}/bin", "--path", f"{fake.run}/checkpoint.pt", "--beam", "4", "--gen-subset", "test"]
    assert fake.calls == [[*given, "--target-lang", "de", "--sampling", "--cpu"]]
    printed_table = capsys.readouterr().out.splitlines()
    assert printed_table[1] == "a run"
    assert printed_table[2].startswith("  test ") and f" {score:.2f} " in printed_table[2]
    assert printed_table[-1].startswith("sacreBLEU signature: nrefs:1|case:mixed|eff:no|tok:13a")


def test_the_table_has_the_users_name_of_a_set_if_it_is_clear(fake, capsys):
    unclear = ({"test": "a", "test1": "a"}, {"test": "\n"}, {"test": ""}, {})
    for shown, sets in [("news", {"test": "news", "test1": "a"}), *(("test", sets) for sets in unclear)]:
        write_json(fake.data / "prepare.json", {"sets": sets})
        command.main(fake.arguments())
        assert capsys.readouterr().out.splitlines()[2].split()[0] == shown
    assert fake.result()["subset"] == "test" and len(fake.calls) == 1


def test_a_set_that_was_scored_is_not_translated_again(fake, capsys):
    command.main(fake.arguments())
    first = capsys.readouterr().out
    command.main(fake.arguments())
    assert capsys.readouterr().out == first and len(fake.calls) == 1


@pytest.mark.parametrize("content", ["[1]", '{"scores": {}}', '{"scores":', '{"sentences": "3"}'])
def test_a_damaged_score_file_is_named(fake, content):
    command.main(fake.arguments())
    (fake.run / "scores/test.json").write_text(content)
    refused(fake, parts=["scores/test.json ", ": remove it and run scripts/score.sh --run"])


def test_what_was_scored_may_be_read_only(fake, capsys):
    command.main(fake.arguments())
    first = capsys.readouterr().out
    with read_only(fake.run):
        command.main(fake.arguments())
        assert capsys.readouterr().out == first
        with pytest.raises(OSError, match="Read-only file system"):
            command.main(fake.arguments("--beam", "2"))
    assert len(fake.calls) == 1


def change(name):
    """Each is something that a score depends on."""

    def checkpoint(fake):
        (fake.run / "checkpoint.pt").write_bytes(b"others")

    def source(fake):
        (fake.data / "raw/test.en").write_text("one\ntwo\nthree\n")

    def version(fake):
        stamp = stamp_path(fake.run, "score-test")
        stamp.write_text(stamp.read_text().replace(f"scoring {command.VERSION}", "scoring 1"))

    def gone(fake):
        (fake.run / "scores/test.json").unlink()

    def stamp(fake):
        stamp_path(fake.run, "score-test").unlink()

    return locals()[name]


@pytest.mark.parametrize("name", ["checkpoint", "source", "version", "gone", "stamp"])
def test_what_a_score_depends_on_makes_it_anew(fake, name):
    command.main(fake.arguments())
    change(name)(fake)
    command.main(fake.arguments())
    assert len(fake.calls) == 2


@pytest.mark.parametrize("options", [("--beam", "2"), ("--lenpen", "1"), ("--", "--cpu")])
def test_other_options_make_it_anew_but_for_the_batch_and_the_name(fake, options):
    command.main(fake.arguments())
    command.main(fake.arguments("--max-tokens", "100", "--name", "x"))
    assert len(fake.calls) == 1
    command.main(fake.arguments(*options))
    assert len(fake.calls) == 2


# what is refused before anything runs


@pytest.mark.parametrize(
    ("missing", "parts"),
    [
        ("run/checkpoint.pt", ["has no checkpoint.pt: run scripts/average.sh --run"]),
        ("data/.stamps/binarize.json", ["data has no prepared data: run scripts/prepare.sh --out"]),
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
        (["--nbest", "4"], "--nbest does not go behind --: its output cannot be scored"),
        (["--quiet"], "--quiet does not go behind --: its output"),
        (["--results-path=x"], "--results-path does not go behind --: its output"),
        (["--fp16", "--beam=5"], "--beam does not go behind --: use the option --beam"),
        (["--gen-subset", "test1"], "--gen-subset does not go behind --: use the option --subset"),
        (["--path", "x"], "--path does not go behind --: it is set here"),
        (["-t", "en"], "-t does not go behind --: it is set here"),
    ],
)
def test_flags_that_contradict_or_cannot_be_scored_are_refused(fake, capsys, words, message):
    with pytest.raises(SystemExit) as ended:
        command.main(fake.arguments("--", *words))
    error = capsys.readouterr().err
    assert ended.value.code == 2 and message in error and error.count("\n") == 1 and not fake.calls


def test_refused_flags_are_flags_of_fairseq_generate():
    from fairseq import options

    known = options.get_generation_parser()._option_string_actions
    flags = {*command.HAVE_OPTIONS, *command.SET_HERE, *command.NOT_TO_BE_SCORED}
    # of tasks, of the scorer of that name in old versions, and of fairseq's translation task
    assert flags - set(known) <= {"--sacrebleu", "--source-lang", "--target-lang", "-s", "-t"}


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
    ],
)
def test_wrong_options_give_one_line(fake, capsys, words, message):
    with pytest.raises(SystemExit) as ended:
        command.main(fake.arguments(*words))
    error = capsys.readouterr().err
    assert ended.value.code == 2 and message in error and error.count("\n") == 1


# what fails on the way


def test_output_that_does_not_fit_leaves_no_scores(fake):
    (fake.folder / "output4").write_text(printed(WORSE[:2], TARGETS[:2]))
    refused(fake, parts=["test.gen.txt is incomplete: it has 2 hypotheses for 3 sentences"])
    assert not (fake.run / "scores/test.json").exists() and not stamp_path(fake.run, "score-test").exists()
    (fake.folder / "output4").write_text(OUTPUTS[4])
    command.main(fake.arguments())
    assert len(fake.calls) == 2


def test_a_scoring_that_fails_leaves_the_one_before_as_it_was(fake, capsys):
    command.main(fake.arguments())
    first = capsys.readouterr().out
    (fake.folder / "status").write_text("1")
    refused(fake, "--", "--typo", parts=["checkpoint.pt: "])
    (fake.folder / "output2").write_text(printed(WORSE[:2], TARGETS[:2]))
    (fake.folder / "status").write_text("0")
    refused(fake, "--beam", "2", parts=["is incomplete"])
    command.main(fake.arguments())
    assert capsys.readouterr().out == first and len(fake.calls) == 3


def test_a_raw_reference_with_swapped_lines_stops(fake):
    (fake.data / "raw/test.de").write_text("\n".join([REFERENCES[1], REFERENCES[0], REFERENCES[2]]) + "\n")
    refused(fake, parts=["raw/test.de: 2 of 3 lines are not the text that was binarised"])


def test_sides_of_different_length_stop(fake):
    (fake.data / "raw/test.en").write_text("one\n")
    refused(fake, parts=["raw/test.en has 1 lines", "raw/test.de 3"])


def saved(path, **entries):
    torch.save({"model": {}, "args": argparse.Namespace(), **entries}, path)


class Malicious:
    def __reduce__(self):
        return os.system, ("touch harmed",)


def test_a_failure_is_the_last_error_of_the_log(fake):
    saved(fake.run / "checkpoint.pt")
    (fake.folder / "status").write_text("1")
    (fake.folder / "stderr").write_text("Traceback\nRuntimeError: out of luck\nbye\n")
    refused(fake, parts=["failed: RuntimeError: out of luck (log: ", "scores/test.log)"])
    (fake.folder / "stderr").write_text("")
    refused(fake, parts=["failed: no reason given"])
    program = fake.folder / "program.py"
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
    program = fake.folder / "program.py"
    program.write_text("import os; assert os.environ['TORCH_FORCE_WEIGHTS_ONLY_LOAD'] == '1'\n" + program.read_text())
    command.main(fake.arguments())


def test_a_full_disk_is_one_line_with_the_file(fake):
    long = printed([*WORSE[:2], "x " * 200_000], TARGETS)
    (fake.folder / "output4").write_text(long)
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (100_000, 100_000))
    process = started(fake, preexec_fn=limit)
    error = process.communicate(timeout=120)[1]
    assert process.returncode == 1
    assert error.splitlines()[1:] == [f"score.sh: error: {fake.run}/scores/test.gen.txt: File too large"]
    assert sorted(path.name for path in (fake.run / "scores").iterdir()) == ["test.log"]


def test_a_disk_that_is_full_is_the_reason_of_a_program_that_could_give_none(fake):
    saved(fake.run / "checkpoint.pt")
    (fake.folder / "status").write_text("1")
    (fake.folder / "output4").write_text("")
    with full_disk(fake.run / "scores", 0):
        refused(fake, parts=[f"failed: no room is left in {fake.run / 'scores'}: make room (log: "])


# several at once, and kills


def test_a_second_call_waits_and_both_have_their_own_figures(fake):
    (fake.folder / "seconds").write_text("0.5")
    outputs = [process.communicate(timeout=120) for process in [started(fake), started(fake, "--beam", "2")]]
    shown = [output.splitlines()[2].split()[1] for output, _ in outputs]
    expected = BLEU().corpus_score([x.replace("Sofa", "Dach") for x in REFERENCES], [REFERENCES]).score
    assert shown == [f"{expected:.2f}", "100.00"], outputs
    assert not list((fake.run / "scores").glob(".*"))


def test_a_second_call_that_waits_too_long_is_refused(fake, monkeypatch):
    monkeypatch.setattr(command, "locked", partial(locked, wait=0.1))
    with locked(fake.run):
        refused(fake, "--beam", "2", parts=[f"another command works in {fake.run} (", "wait for it, or end it"])
    assert not fake.calls
    command.main(fake.arguments("--beam", "2"))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_all_and_leaves_nothing(fake, number):
    (fake.folder / "seconds").write_text("100")
    reset = partial(signal.signal, number, signal.SIG_DFL)  # whoever started pytest may ignore it
    process = started(fake, preexec_fn=reset)
    wait_for(fake.folder / "printed")
    process.send_signal(number)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == -number and "Traceback" not in error
    assert not is_running((fake.folder / "pid").read_text())
    assert sorted(path.name for path in (fake.run / "scores").iterdir()) == ["test.log"]


def test_after_a_kill_the_same_call_gives_the_right_answer(fake):
    command.main(fake.arguments())
    right = fake.result()
    (fake.run / "checkpoint.pt").write_bytes(b"others")
    (fake.folder / "seconds").write_text("100")
    (fake.folder / "printed").unlink()
    process = started(fake)
    wait_for(fake.folder / "printed")
    process.kill()
    process.communicate()
    os.kill(int((fake.folder / "pid").read_text()), signal.SIGKILL)
    assert [path.name for path in (fake.run / "scores").glob(".*")] != []
    (fake.folder / "seconds").write_text("0")
    command.main(fake.arguments())
    assert fake.result()["scores"] == right["scores"] and fake.result()["checkpoint"] != right["checkpoint"]
    assert not list((fake.run / "scores").glob(".*")) and len(fake.calls) == 3


def test_a_reader_that_goes_away_is_no_error(fake):
    read, write = os.pipe()
    os.close(read)
    process = started(fake, stdout=write)
    os.close(write)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == -signal.SIGPIPE and "error" not in error and "Traceback" not in error
    assert fake.result()["sentences"] == 3
