"""Result files: what they hold, what is refused, and when a sweep counts a run as finished."""

import json

import pytest

from pipeline.files import read_json, write_json
from pipeline.results import collect, read_result, read_results, without_folders
from pipeline.settings import data_line
from pipeline.steps import stamp_path

from .report.made_results import ROTARY, result, scored
from .training.logs import KILLED, RESUMED, start

STATISTICS = scored("test_x2", 0.2)["statistics"]


@pytest.fixture
def finished(tmp_path):
    """A run and its data, as the scripts leave them behind."""
    run, data = tmp_path / "run", tmp_path / "data"
    for folder in (run / "scores", data / "raw"):
        folder.mkdir(parents=True)
    info = {"arch": "roformer_tiny", "seed": "3", "flags": "--arch roformer_tiny --seed 3", "versions": {}}
    info["command"] = f"scripts/train.sh --data {data} --arch roformer_tiny --out {run} -- --lr 1"
    (run / "run.json").write_text(json.dumps({**info, "machine": "x"}))
    (run / "train.log").write_text("\n".join([*KILLED, *RESUMED]) + "\n")
    write_json(stamp_path(run, "train"), {"settings": "x"})
    write_json(stamp_path(run, "average"), {"settings": "average last 5", "averaged": 5})
    said = {"name": "run", "checkpoint": "0", "commit": "c0ffee"}
    write_json(run / "scores/test1.json", {**said, **scored("test_x2", 0.2)})
    prepared = {"pairs": {"train": 9, "valid": 2}, "cleaned": {"kept": 8}, "bpe": {"merges": 5}, "vocabulary": 7}
    prepared["command"] = "scripts/prepare.sh --train /a\\ b/train --test /a\\ b/news --merges 5 --out /a/data"
    (data / "prepare.json").write_text(json.dumps(prepared))
    return run, data


def result_of(finished, **options):
    return collect(*finished, "demo", {"test1": "test_long"}, **options)


def test_a_result_file_has_what_the_report_needs(finished, tmp_path):
    result = result_of(finished, variant="x")
    assert [result[key] for key in ("recipe", "arch", "seed", "variant")] == ["demo", "roformer_tiny", 3, "x"]
    assert result["run"]["command"] == "scripts/train.sh --data DATA --arch roformer_tiny --out RUN -- --lr 1"
    costs = [result["training"][key] for key in ("target_tokens", "averaged", "target_tokens_per_update")]
    assert costs == [4880, 5, round(4880 / 42, 1)]
    numbers = {"pairs": {"train": 9, "valid": 2}, "kept": 8, "merges": 5, "vocabulary": 7}
    command = "scripts/prepare.sh --train RAW/train --test RAW/news --merges 5 --out DATA"
    assert result["data"] == {**numbers, "command": command}
    test = result["tests"]["test_long"]
    assert list(test) == ["subset", "sentences", "settings", "scores", "commit", "statistics"]
    assert (test["subset"], test["commit"], test["statistics"]) == ("test1", "c0ffee", STATISTICS)
    path = tmp_path / "r/x.json"
    write_json(path, result)
    assert read_json(path) == result and max(map(len, path.read_text().splitlines())) > 100, "a column on one line"
    read = read_result(path)
    assert (read.name, read.seed, read.tests["test_long"].statistics) == ("roformer_tiny (x)", 3, STATISTICS)


def test_a_test_set_that_joined_the_data_is_in_their_line_of_the_result(finished):
    """Else seeds trained before it would count as seeds of other data, and not be averaged with later ones."""
    run, data = finished
    write_json(stamp_path(data, "binarize"), {"settings": "input en-de a b c d t u\n"})
    before = data_line(data)
    (run / "settings").write_text(f"{before}\ntrain --lr 1\n")
    write_json(stamp_path(data, "binarize"), {"settings": "input en-de a b c d v w t u\n"})
    assert result_of(finished)["settings"] == f"{data_line(data)}\ntrain --lr 1\n" != f"{before}\ntrain --lr 1\n"


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


def test_a_result_file_names_no_folder_of_this_machine(finished, tmp_path):
    run, data = finished
    record = json.loads((run / "run.json").read_text())
    record.update(recipe=f"{tmp_path}/mine.toml", command=f"{record['command']} --recipe {tmp_path}/mine.toml")
    (run / "run.json").write_text(json.dumps(record))
    prepare = json.loads((data / "prepare.json").read_text())
    command = f"scripts/prepare.sh --like {tmp_path}/model --add-tokens {tmp_path}/tags"
    (data / "prepare.json").write_text(json.dumps({**prepare, "command": command}))
    assert str(tmp_path) not in json.dumps(result_of(finished))


@pytest.mark.parametrize("lines", [None, [], start()])
def test_a_run_that_failed_before_its_first_update_has_none(finished, lines):
    log = finished[0] / "train.log"
    log.unlink() if lines is None else log.write_text("\n".join(lines) + "\n")
    stamp_path(finished[0], "average").unlink()
    result = result_of(finished, unfinished="killed")
    assert [result["training"][key] for key in ("updates", "target_tokens", "averaged")] == [0, 0, 0]
    assert result["curve"]["train"] == {"updates": [], "nll": []}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda made: made.pop("recipe"), "recipe"),
        (lambda made: made["tests"]["test"]["scores"]["sacrebleu"].update(score=99.0), "99.0 BLEU"),
        (lambda made: made.update(format="fairseq_rope result 2"), "fairseq_rope result 1"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_name(tmp_path, change, reason):
    path = result(tmp_path, ROTARY, test=0.1)
    made = json.loads(path.read_text())
    change(made)
    path.write_text(json.dumps(made))
    results, (said,), _ = read_results([tmp_path])
    assert not results and str(path) in said and reason in said


def test_files_are_read_once_in_order_and_other_json_is_handed_on(tmp_path):
    paths = [result(tmp_path, arch, test=0.1) for arch in (ROTARY, "a_tiny")]
    (tmp_path / "benchmark-x.json").write_text("[1]")
    results, broken, others = read_results([paths[0], tmp_path, tmp_path / ".." / tmp_path.name])
    assert [made.arch for made in results] == ["a_tiny", ROTARY] and not broken
    assert [content for _, content in others] == [[1]]


def test_a_result_is_from_a_run_with_its_settings_updates_and_averaged_checkpoints(tmp_path):
    settings = "data 12ab\ntrain --arch roformer_tiny --seed 1\n"
    made = read_result(result(tmp_path, ROTARY, more={"settings": settings.strip()}, test=0.1))
    assert made.is_from(settings, 20, 5) and made.is_from(settings.split("\n")[1], 20, 5)
    assert not made.is_from(settings.replace("12ab", "34cd"), 20, 5), "other data"
    assert not made.is_from(settings + "--dropout 0.3", 20, 5), "other flags"
    assert not made.is_from(settings, 30, 5) and not made.is_from(settings, 20, 1)
    begun = read_result(result(tmp_path, ROTARY, more={"settings": f"{settings}from 56ef\n"}, test=0.1))
    assert begun.is_from(f"{settings}from 56ef\n", 20, 5)
    assert not begun.is_from(settings, 20, 5), "another beginning"
