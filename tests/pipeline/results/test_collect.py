"""Result files: what is counted in a log with a resume in it, the statistics of sentences, what is refused."""

import json
import math
import random
import re
import subprocess
import sys

import pytest
from sacrebleu.metrics import BLEU

from pipeline.command import Failure
from pipeline.files import sha256, to_text, write_json
from pipeline.results.collect import POINTS, collect
from pipeline.results.file import ResultError, read_result, write_result
from pipeline.scoring.statistics import BUCKETS, bleu, by_length, columns, paired_bootstrap, rows
from pipeline.steps import stamp_path
from pipeline.training.log import LogError, Point, read_log, thinned

STAMP = "2026-01-01 00:00:00 | INFO | "


def inner(updates, wpb, wall, nll=2.0):
    values = dict(epoch=1, nll_loss=str(nll), wpb=str(wpb), num_updates=str(updates), train_wall="1", wall=str(wall))
    return f"{STAMP}train_inner | {json.dumps(values)}"


def valid(updates, nll):
    return f'{STAMP}valid | {{"epoch": 1, "valid_nll_loss": "{nll}", "valid_num_updates": "{updates}"}}'


def epoch(updates, wpb, wall):
    values = {"epoch": 1, "train_nll_loss": "2", "train_wpb": str(wpb), "train_num_updates": str(updates)}
    return f"{STAMP}train | {json.dumps({**values, 'train_train_wall': '3', 'train_wall': str(wall)})}"


def start(updates=None):
    lines = [f"{STAMP}fairseq_cli.train | num. shared model params: 1,234 (num. trained: 1,200)"]
    loaded = f"{STAMP}fairseq.trainer | Loaded checkpoint x/checkpoint_last.pt (epoch 1 @ {updates} updates)"
    return lines if updates is None else [*lines, loaded]


KILLED = [*start(), inner(10, 100, 20), inner(20, 110, 40), valid(20, 3), inner(30, 999, 60), valid(30, 9)]
"""The checkpoint is that of 20 updates; the kill lost 10 to 15 updates and cut a line."""

RESUMED = [*start(20), inner(30, 120, 25), valid(30, 2), inner(40, 130, 50), epoch(42, 140, 55)]


def read(tmp_path, lines):
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + "\n")
    return read_log(path)


def test_what_a_kill_lost_counts_neither_as_updates_nor_as_tokens_nor_as_time(tmp_path):
    log = read(tmp_path, [*KILLED, inner(35, 50, 70)[:-9], *RESUMED])
    assert (log.updates, log.processes, log.parameters, log.trained) == (42, 2, 1234, 1200)
    assert log.tokens == 10 * 100 + 10 * 110 + 10 * 120 + 10 * 130 + 2 * 140
    assert log.seconds == 40 + 55  # fairseq counts anew in each process
    assert [(p.updates, p.seconds) for p in log.train] == [(10, 20), (20, 40), (30, 65), (40, 90)]
    assert [(p.updates, p.seconds, p.nll) for p in log.valid] == [(20, 40, 3), (30, 65, 2)]


def test_a_training_that_began_anew_counts_once(tmp_path):
    log = read(tmp_path, [*start(), inner(10, 999, 20), *start(), inner(10, 100, 30)])
    assert (log.updates, log.tokens, log.seconds, log.processes) == (10, 1000, 30, 2)


def test_a_process_killed_before_its_first_line_loses_nothing(tmp_path):
    assert read(tmp_path, [*KILLED, *start(20)]).train == read(tmp_path, KILLED).train


def test_a_run_too_short_for_a_line_every_ten_updates_has_the_mean_of_its_epoch(tmp_path):
    log = read(tmp_path, [*start(), epoch(4, 100.5, 3)])
    assert (log.updates, log.tokens, log.seconds) == (4, 402, 3)


def test_the_devices_are_those_of_the_last_process(tmp_path):
    def devices(*names):
        text = "fairseq.utils | rank {:3d}: capabilities =  9.0  ; total memory = 9.000 GB ; name = {:40s}"
        return [STAMP + text.format(rank, name) for rank, name in enumerate(names)]

    log = read(tmp_path, [*start(), *devices("A", "A"), inner(10, 1, 1), *start(10), *devices("B C"), inner(20, 1, 1)])
    assert log.devices == ["B C"]


def test_a_log_without_training_is_refused(tmp_path):
    with pytest.raises(LogError, match=r"no line of training: run scripts/train\.sh again"):
        read(tmp_path, start())


@pytest.mark.parametrize("count", [1, 150, 151, 1000])
def test_a_thinned_curve_has_its_end_and_its_mean(count):
    points = [Point(i, float(i), nll=float(i % 7)) for i in range(1, count + 1)]
    few = thinned([*points, Point(count + 1, 0.0, math.nan)], POINTS)
    assert len(few) <= POINTS and few[-1].updates == count and few[-1].seconds == count
    size = -(-count // POINTS)
    assert few[0].nll == pytest.approx(sum(p.nll for p in points[:size]) / size)


WORDS = "der die das Hund Haus rote geht sieht , und - nicht 3.5 % Straße (heute) zu-Fuß".split()


def text(count, seed=1, spoil=0.0, like=None):
    """Sentences of 1 to 129 words, or those given with words exchanged at a rate of ``spoil``."""
    chance = random.Random(seed)
    like = like or [[chance.choice(WORDS) for _ in range(chance.randrange(1, 130))] for _ in range(count)]
    lines = [[chance.choice(WORDS) if chance.random() < spoil else word for word in words] for words in map(list, like)]
    return [" ".join(words) for words in lines]


REFERENCES = text(120)
HYPOTHESES = {
    rate: text(120, seed=7 + i, spoil=rate, like=[line.split() for line in REFERENCES])
    for i, rate in enumerate((0.2, 0.21, 0.4))
}


def statistics(rate):
    return columns(REFERENCES, HYPOTHESES[rate], REFERENCES)


def test_the_stored_statistics_have_sacrebleus_score():
    expected = BLEU().corpus_score(HYPOTHESES[0.2], [REFERENCES])
    assert bleu(rows(statistics(0.2))) == expected.score
    assert sum(statistics(0.2)["hyp_len"]) == expected.sys_len


def test_bleu_by_length_is_that_of_these_sentences():
    stored = by_length(statistics(0.4))
    for (first, last), (count, score) in zip(BUCKETS, stored):
        chosen = [i for i, line in enumerate(REFERENCES) if first <= len(line.split()) <= (last or 10**9)]
        hypotheses, references = ([lines[i] for i in chosen] for lines in (HYPOTHESES[0.4], REFERENCES))
        assert count == len(chosen) > 0
        assert score == BLEU().corpus_score(hypotheses, [references]).score
    assert sum(count for count, _ in stored) == len(REFERENCES)


def test_p_values_are_those_of_sacrebleus_command(tmp_path):
    files = []
    for name, lines in [("ref", REFERENCES), *((str(rate), lines) for rate, lines in HYPOTHESES.items())]:
        files.append(tmp_path / name)
        files[-1].write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", files[0], "-i", *files[1:], "--paired-bs", "-m", "bleu", "-f", "json"]
    printed = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    p, signature = paired_bootstrap(rows(statistics(0.2)), {str(rate): rows(statistics(rate)) for rate in (0.21, 0.4)})
    assert list(p.values()) == [system["BLEU"]["p_value"] for system in printed[1:]]
    assert p["0.4"] < 0.05 < p["0.21"]
    assert "bs:1000|seed:12345" in signature and "tok:13a" in signature


@pytest.fixture
def finished(tmp_path):
    """A run and its data, as the scripts leave them behind."""
    run, data = tmp_path / "run", tmp_path / "data"
    for folder in (run / "scores", data):
        folder.mkdir(parents=True)
    info = {"arch": "roformer_tiny", "seed": "3", "flags": "--arch roformer_tiny --seed 3", "versions": {}}
    info["command"] = f"scripts/train.sh --data {data} --arch roformer_tiny --out {run} -- --lr 1"
    (run / "run.json").write_text(json.dumps({**info, "machine": "x"}))
    (run / "train.log").write_text("\n".join([*KILLED, *RESUMED]) + "\n")
    write_json(stamp_path(run, "train"), {"settings": "x"})
    write_json(stamp_path(run, "average"), {"settings": "average last 5", "averaged": 5})
    score = round(BLEU().corpus_score(HYPOTHESES[0.2], [REFERENCES]).score, 2)
    scored = {"name": "run", "subset": "test1", "settings": "beam 4", "checkpoint": "0"}
    scored["sentences"] = len(REFERENCES)
    scored["scores"] = {"sacrebleu": {"score": score, "signature": "s"}}
    scored["statistics"] = statistics(0.2)
    write_json(run / "scores/test1.json", scored)
    prepared = {"pairs": {"train": 9, "valid": 2}, "cleaned": {"kept": 8}, "bpe": {"merges": 5}, "vocabulary": 7}
    prepared["command"] = "scripts/prepare.sh --train /a\\ b/train --test /a\\ b/news --merges 5 --out /a/data"
    (data / "prepare.json").write_text(json.dumps(prepared))
    return run, data


def result_of(finished, variant=""):
    return collect(*finished, "demo", {"test1": "test_long"}, variant)


def test_a_result_file_has_what_the_report_needs(finished, tmp_path):
    result = result_of(finished, variant="x")
    assert (result["recipe"], result["arch"], result["seed"], result["variant"]) == ("demo", "roformer_tiny", 3, "x")
    assert result["entries"] == {}
    assert result["run"]["command"] == "scripts/train.sh --data DATA --arch roformer_tiny --out RUN -- --lr 1"
    training = result["training"]
    assert training["target_tokens"] == 4880 and training["seconds"] == 95 and training["averaged"] == 5
    assert training["target_tokens_per_update"] == round(4880 / 42, 1)
    assert training["target_tokens_per_second"] == round(4880 / 95)
    numbers = {"pairs": {"train": 9, "valid": 2}, "kept": 8, "merges": 5, "vocabulary": 7}
    command = "scripts/prepare.sh --train RAW/train --test RAW/news --merges 5 --out DATA"
    assert result["data"] == {**numbers, "command": command}
    test = result["tests"]["test_long"]
    assert test["statistics"] == statistics(0.2)
    assert list(test) == ["subset", "sentences", "settings", "scores", "statistics"]
    assert (test["subset"], test["sentences"], test["settings"]) == ("test1", len(REFERENCES), "beam 4")
    path = tmp_path / "r/x.json"
    write_result(result, path)
    assert read_result(path) == result
    longest = max(path.read_text().splitlines(), key=len)
    assert longest.count(",") >= len(REFERENCES) - 1  # a column on one line
    assert json.loads(to_text({"a": {}, "b": {"c": [1, "ä"]}})) == {"a": {}, "b": {"c": [1, "ä"]}}


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
        ("run/run.json", {"command": 3}, "has 3 as 'command', which must be text: run scripts/train"),
        ("run/scores/test1.json", {"scores": []}, "has .* as 'scores', which must be an object: run scripts/score"),
        ("run/scores/test1.json", {"sentences": "9"}, "has '9' as 'sentences', which must be a whole number"),
        ("data/prepare.json", {"pairs": [9]}, "has .* as 'pairs', which must be an object: run scripts/prepare"),
        ("data/prepare.json", {"command": None}, "has None as 'command', which must be text: run scripts/prepare"),
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
        ({"statistics": statistics(0.4)}, r"says \d+\.\d+ BLEU, its statistics have \d+\.\d+"),
        (
            {"statistics": {name: column[1:] for name, column in statistics(0.2).items()}},
            "not hold the statistics of 120 sentences",
        ),
        ({"statistics": {**statistics(0.2), "ref_len": []}}, "not hold the statistics of 120 sentences"),
        ({"statistics": {"hyp_len": [1] * 120}}, "not hold the statistics of 120 sentences"),
        ({"sentences": 119}, "not hold the statistics of 119 sentences"),
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


def test_no_text_is_read(finished):
    assert not list(finished[0].glob("scores/*.hyp.*")) and not (finished[1] / "raw").exists()
    assert result_of(finished)["tests"]


def test_each_test_set_needs_a_name_of_its_own(finished):
    for subsets in ({}, {"test": "x", "test1": "x"}):
        with pytest.raises(Failure, match="each test set needs a name of its own"):
            collect(*finished, "demo", subsets)


def test_what_is_wrong_with_a_run_is_for_the_user():
    assert issubclass(ResultError, Failure)


def unfinished(finished, reason="killed", variant=""):
    return collect(*finished, "demo", {"test1": "test_long"}, variant, reason)


def test_of_a_run_that_was_killed_there_is_what_its_log_has(finished, tmp_path):
    stamp_path(finished[0], "train").unlink()
    (finished[0] / "train.log").write_text("\n".join(KILLED) + "\n")
    result = unfinished(finished, f"killed\n in {finished[0]}/train.log and {finished[1]}", variant="x")
    assert result["unfinished"] == "killed in RUN/train.log and DATA" and result["variant"] == "x"
    assert result["tests"] == {} and result["curve"]["valid"]["updates"] == [20, 30]
    training = result["training"]
    assert (training["updates"], training["seconds"], training["parameters"]) == (30, 60, 1234)
    assert training["target_tokens"] == 10 * 100 + 10 * 110 + 10 * 999
    path = tmp_path / "r/x.json"
    write_result(result, path)
    assert read_result(path) == result


@pytest.mark.parametrize("lines", [None, [], start()])
def test_a_run_that_failed_before_its_first_update_has_none(finished, lines):
    log = finished[0] / "train.log"
    log.unlink() if lines is None else log.write_text("\n".join(lines) + "\n")
    for stamp in ("train", "average"):
        stamp_path(finished[0], stamp).unlink()
    result = unfinished(finished)
    counted = ("updates", "target_tokens", "seconds", "averaged")
    assert [result["training"][key] for key in counted] == [0, 0, 0, 0]
    assert result["training"]["target_tokens_per_update"] is result["training"]["target_tokens_per_second"] is None
    assert result["training"]["parameters"] == (1234 if lines else 0)
    assert result["curve"]["train"]["nll"] == []
    with pytest.raises(Failure, match=r"run scripts/train\.sh"):
        result_of(finished)


def test_a_finished_run_is_not_called_unfinished(finished):
    with pytest.raises(Failure, match="is trained, averaged and scored: it is not unfinished"):
        unfinished(finished)
    (finished[0] / "scores/test1.json").unlink()
    assert unfinished(finished)["training"]["updates"] == 42  # trained, not scored


def test_a_run_that_did_not_finish_replaces_no_scores(finished, tmp_path):
    stamp_path(finished[0], "train").unlink()
    path, result = tmp_path / "out.json", unfinished(finished)
    write_result(result, path)
    assert json.loads(path.read_text()) == result
    scored = to_text({**result, "tests": {"test_long": {}}})
    path.write_text(scored)
    with pytest.raises(Failure, match=r"out\.json has the scores of a finished run"):
        write_result(result, path)
    assert path.read_text() == scored
    path.write_text(scored[:50])  # damaged
    write_result(result, path)
    assert json.loads(path.read_text()) == result


def test_a_run_that_did_not_finish_needs_a_reason(finished):
    with pytest.raises(Failure, match="needs a reason"):
        unfinished(finished, " ")
