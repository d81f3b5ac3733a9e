"""The command: what is written, what is done once and what makes it anew, and what is refused."""

import argparse
import os

import pytest
import torch
from sacrebleu.metrics import BLEU

from pipeline.files import write_json
from pipeline.lock import locked
from pipeline.provenance import code
from pipeline.scoring import score as command
from pipeline.scoring.statistics import COLUMNS, bleu, rows
from pipeline.scoring.table import table
from pipeline.steps import stamp_path

from ...disks import read_only
from .fake import SENTENCES, TOKENS, WORSE, FakeRun, printed, refused


@pytest.fixture
def fake(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return FakeRun(tmp_path)


def named(data):
    """The user's names of test sets."""
    write_json(data / "prepare.json", {"source": "en", "target": "de", "sets": {"test": "news", "test1": "a"}})


def test_scores_and_statistics_are_written_together(fake, capsys):
    named(fake.data)
    command.main(fake.arguments("--", "--sampling", "--cpu"))
    result = fake.result()
    hypotheses = (fake.run / "scores/test.hyp.de").read_text(encoding="utf-8").splitlines()
    assert hypotheses == [SENTENCES[0], "Die Katze schläft auf dem Dach.", SENTENCES[2]]
    score = BLEU().corpus_score(hypotheses, [SENTENCES]).score
    assert result["scores"]["sacrebleu"]["score"] == round(score, 2) < 100
    assert tuple(result["statistics"]) == COLUMNS and bleu(rows(result["statistics"])) == score
    assert result["statistics"]["source_words"] == [2, 2, 2] and result["sentences"] == 3
    said = ("test", "beam 4, lenpen 0.6, --sampling --cpu", code())
    assert (result["subset"], result["settings"], result["commit"]) == said
    (call,) = fake.calls
    assert call[0] == f"{fake.data}/bin" and call[-2:] == ["--sampling", "--cpu"]
    given = {"--path": f"{fake.run}/checkpoint.pt", "--beam": "4", "--gen-subset": "test", "--target-lang": "de"}
    given |= {"--lenpen": "0.6", "--source-lang": "en"}
    assert given.items() <= dict(zip(call, call[1:])).items()
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == str(fake.run) and lines[2].startswith("  news ") and f" {score:.2f} " in lines[2]
    assert lines[-1].startswith("sacreBLEU signature: nrefs:1|case:mixed|eff:no|tok:13a")


def test_a_translation_of_documents_may_have_twice_the_length(fake):
    write_json(fake.data / "prepare.json", {"source": "en", "target": "de", "document_tokens": 40})
    write_json(fake.data / "raw/test.json", {"documents": [3]})
    command.main(fake.arguments())
    assert fake.calls[0][-4:] == ["--max-len-a", "2", "--max-len-b", "200"]


def test_scores_of_text_that_was_joined_otherwise_are_made_anew(fake):
    for lang in ("de", "cs"):
        for side in ("raw/test.de", "bin/test.en-de.de.idx"):
            (fake.data / side.replace("de", lang)).write_bytes((fake.data / side).read_bytes())
        write_json(fake.data / "prepare.json", {"source": "en", "target": lang})
        command.main(fake.arguments())
        assert ("joined 2" in stamp(fake).read_text()) == (lang == "cs")


def test_a_signature_is_one_word_to_copy():
    signature = "nrefs:1|case:mixed|eff:no|tok:ja-mecab-0.996-IPA|smooth:exp|version:2.6.0"
    shown = table([("run", "test", {"sacrebleu": {"score": 30.0, "signature": signature}})])
    assert signature in shown.split()


def test_a_set_that_was_scored_is_not_translated_again_and_may_be_read_only(fake, capsys):
    command.main(fake.arguments())
    first = capsys.readouterr().out
    with read_only(fake.run):
        command.main(fake.arguments("--max-tokens", "100"))
        assert capsys.readouterr().out == first
        with pytest.raises(OSError, match="Read-only file system"):
            command.main(fake.arguments("--beam", "2"))
    assert len(fake.calls) == 1


@pytest.mark.parametrize("averaged,said", [(["1_100", "2_200"], True), (["2_200", "2_300"], False), ([], False)])
def test_an_average_older_than_the_training_is_told(fake, capsys, averaged, said):
    names = [f"checkpoint_{name}.pt" for name in averaged]
    write_json(stamp_path(fake.run, "average"), {"settings": "".join(f"average {name} 0f\n" for name in names)})
    (fake.run / "checkpoints").mkdir()
    (fake.run / "checkpoints/checkpoint_2_300.pt").touch()
    command.main(fake.arguments())
    assert ("is of 200 updates, the training of 300" in capsys.readouterr().err) is said


def test_a_score_file_that_is_damaged_or_contradicts_itself_is_named(fake):
    command.main(fake.arguments())
    for other in ({"sentences": "3"}, {**fake.result(), "scores": {"sacrebleu": {"score": 99.0}}}):
        write_json(fake.run / "scores/test.json", other)
        refused(fake, parts=["scores/test.json", "remove it"])


def stamp(fake):
    return stamp_path(fake.run, "score-test")


DEPENDS_ON = {
    "checkpoint": lambda fake: (fake.run / "checkpoint.pt").write_bytes(b"others"),
    "source": lambda fake: (fake.data / "raw/test.en").write_text("one\ntwo\nthree\n"),
    "version": lambda fake: stamp(fake).write_text(
        stamp(fake).read_text().replace(f"scoring {command.VERSION}", "scoring 1")
    ),
    "translations": lambda fake: (fake.run / "scores/test.hyp.de").unlink(),
    "stamp": lambda fake: stamp(fake).unlink(),
    "beam": lambda fake: ("--beam", "2"),
    "lenpen": lambda fake: ("--lenpen", "1"),
    "flags": lambda fake: ("--", "--cpu"),
}


@pytest.mark.parametrize("name", DEPENDS_ON)
def test_what_a_score_depends_on_makes_it_anew(fake, name):
    command.main(fake.arguments())
    options = DEPENDS_ON[name](fake)
    command.main(fake.arguments(*(options if isinstance(options, tuple) else ())))
    assert len(fake.calls) == 2


@pytest.mark.parametrize(
    ("change", "options", "part"),
    [
        (lambda folder: (folder / "run/checkpoint.pt").unlink(), (), "scripts/average.sh"),
        (lambda folder: (folder / "data/raw/test.en").unlink(), (), "scripts/prepare.sh"),
        (lambda folder: named(folder / "data"), ("--subset", "news"), "no test set 'news'; there are: test (news)"),
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
