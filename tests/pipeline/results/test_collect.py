"""Result files of finished runs: what they hold, and what is refused."""

import json
import re

import pytest

from pipeline.command import Failure
from pipeline.files import sha256, to_text, write_json
from pipeline.results.collect import collect
from pipeline.results.file import read_result, without_folders, write_result
from pipeline.steps import stamp_path

from ..report.made_results import scored
from .collecting import result_of

STATISTICS = scored("test_x2", 0.2)["statistics"]
SENTENCES = scored("test_x2", 0.2)["sentences"]


def test_a_result_file_has_what_the_report_needs(finished, tmp_path):
    result = result_of(finished, variant="x")
    assert (result["recipe"], result["arch"], result["seed"], result["variant"]) == ("demo", "roformer_tiny", 3, "x")
    assert result["entries"] == {}
    assert result["run"]["command"] == "scripts/train.sh --data DATA --arch roformer_tiny --out RUN -- --lr 1"
    training = result["training"]
    assert training["target_tokens"] == 4880 and training["seconds"] == 97 and training["averaged"] == 5
    assert training["target_tokens_per_update"] == round(4880 / 42, 1)
    assert training["target_tokens_per_second"] == round(4880 / 97)
    numbers = {"pairs": {"train": 9, "valid": 2}, "kept": 8, "merges": 5, "vocabulary": 7}
    command = "scripts/prepare.sh --train RAW/train --test RAW/news --merges 5 --out DATA"
    assert result["data"] == {**numbers, "command": command}
    test = result["tests"]["test_long"]
    assert test["statistics"] == STATISTICS
    assert list(test) == ["subset", "sentences", "settings", "scores", "statistics"]
    assert (test["subset"], test["sentences"], test["settings"]) == ("test1", SENTENCES, "beam 4")
    path = tmp_path / "r/x.json"
    write_result(result, path)
    assert read_result(path) == result
    longest = max(path.read_text().splitlines(), key=len)
    assert longest.count(",") >= SENTENCES - 1  # a column on one line
    assert json.loads(to_text({"a": {}, "b": {"c": [1, "ä"]}})) == {"a": {}, "b": {"c": [1, "ä"]}}


@pytest.mark.parametrize(
    "command,expected",
    [
        ("x.sh --run '/home/a b/run' --data=/glue -- --dropout 0.2", "x.sh --run RUN --data=DATA -- --dropout 0.2"),
        ("x.sh --run /h/a /h/b --seed 1 /h/c", "x.sh --run RUN RUN --seed 1 /h/c"),
        ("x.sh --train /h/a.txt /h/b.txt --train='/h/c d'", "x.sh --train RAW/a.txt RAW/b.txt '--train=RAW/c d'"),
    ],
)
def test_a_command_names_no_folder_of_this_machine(command, expected):
    assert without_folders(command, {"--run": "RUN", "--data": "DATA", "--train": "RAW/{name}"}) == expected


def test_data_of_an_older_version_have_no_numbers(finished):
    (finished[1] / "prepare.json").unlink()
    assert result_of(finished)["data"] == {}


def test_the_stamp_says_how_many_checkpoints_were_averaged(finished):
    write_json(stamp_path(finished[0], "average"), {"settings": "x", "averaged": 2})
    assert result_of(finished)["training"]["averaged"] == 2
    write_json(stamp_path(finished[0], "average"), {"settings": "x"})
    with pytest.raises(Failure, match=r"is not averaged: run scripts/average\.sh"):
        result_of(finished)


@pytest.mark.parametrize(
    ("missing", "remedy"),
    [
        ("run.json", "train.sh"),
        ("train.log", "train.sh"),
        (".stamps/train.json", "train.sh"),
        (".stamps/average.json", "average.sh"),
        ("scores/test1.json", "score.sh"),
    ],
)
def test_a_missing_part_is_an_error_that_names_what_to_run(finished, missing, remedy):
    (finished[0] / missing).unlink()
    with pytest.raises(Failure, match=f"run scripts/{remedy}") as error:
        result_of(finished)
    assert "\n" not in str(error.value)


def test_a_record_of_the_run_without_its_flags_is_refused(finished):
    info = json.loads((finished[0] / "run.json").read_text())
    del info["flags"]
    (finished[0] / "run.json").write_text(json.dumps(info))
    with pytest.raises(Failure, match=r"run\.json lacks 'flags': run scripts/train\.sh"):
        result_of(finished)


@pytest.mark.parametrize(
    ("file", "entries", "problem"),
    [
        ("run/run.json", {"seed": "x"}, "has 'x' as 'seed', which must be a whole number: run scripts/train"),
        (
            "run/run.json",
            {"command": 3},
            "has 3 as 'command', which must be a shell command: run scripts/train",
        ),
        ("run/run.json", {"command": "a 'b"}, "has .* as 'command', which must be a shell command"),
        ("run/scores/test1.json", {"scores": []}, "has .* as 'scores', which must be an object: run scripts/score"),
        ("run/scores/test1.json", {"sentences": "9"}, "has '9' as 'sentences', which must be a whole number"),
        ("data/prepare.json", {"pairs": [9]}, "has .* as 'pairs', which must be an object: prepare"),
        (
            "data/prepare.json",
            {"command": None},
            "has None as 'command', which must be a shell command: prepare",
        ),
    ],
)
def test_entries_of_a_wrong_type_are_named_with_their_file(finished, tmp_path, file, entries, problem):
    path = tmp_path / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **entries}))
    with pytest.raises(Failure, match=rf"{path.name} {problem}"):
        result_of(finished)


@pytest.mark.parametrize("score", ["NaN", "Infinity", "1e999"])
def test_a_score_that_is_no_number_is_refused(finished, score):
    path = finished[0] / "scores/test1.json"
    path.write_text(re.sub(r'"score": ?[\d.]+', f'"score":{score}', path.read_text()))
    with pytest.raises(Failure, match=r"test1\.json (is not JSON|has inf as 'scores: sacrebleu: score')"):
        result_of(finished)


def changed(finished, **entries):
    """The score file with other entries; None takes one out."""
    path = finished[0] / "scores/test1.json"
    scored = {**json.loads(path.read_text()), **entries}
    write_json(path, {key: value for key, value in scored.items() if value is not None})


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ({"statistics": scored("test_x2", 0.4)["statistics"]}, r"says \d+\.\d+ BLEU, its statistics have \d+\.\d+"),
        (
            {"statistics": {name: column[1:] for name, column in STATISTICS.items()}},
            "not hold the statistics of 60 sentences",
        ),
        ({"statistics": {**STATISTICS, "ref_len": []}}, "not hold the statistics of 60 sentences"),
        ({"statistics": {"hyp_len": [1] * 60}}, "not hold the statistics of 60 sentences"),
        ({"sentences": 59}, "not hold the statistics of 59 sentences"),
        ({"statistics": None}, "lacks 'statistics'"),  # of a version before
    ],
)
def test_scores_that_are_not_those_of_their_statistics_are_refused(finished, entries, problem):
    result_of(finished)
    changed(finished, **entries)
    with pytest.raises(Failure, match=rf"test1\.json .*{problem}: run scripts/score\.sh"):
        result_of(finished)


def test_scores_of_another_checkpoint_are_refused(finished):
    checkpoint = finished[0] / "checkpoint.pt"
    checkpoint.write_bytes(b"weights")
    with pytest.raises(Failure, match=r"test1\.json is of another checkpoint than .*: run scripts/score\.sh"):
        result_of(finished)
    changed(finished, checkpoint=sha256(checkpoint))
    assert result_of(finished)["tests"]


@pytest.mark.parametrize("content", ["{", "[1]"])
def test_a_damaged_score_file_is_named(finished, content):
    (finished[0] / "scores/test1.json").write_text(content)
    with pytest.raises(Failure, match=r"test1\.json (is not JSON|must be an object).*: run scripts/score\.sh"):
        result_of(finished)


def test_each_test_set_needs_a_name_of_its_own(finished):
    for subsets in ({}, {"test": "x", "test1": "x"}):
        with pytest.raises(Failure, match="each test set needs a name of its own"):
            collect(*finished, "demo", subsets)
