"""Result files of runs: what they hold, what is refused, and what there is of a run that did not finish."""

import pytest

from pipeline.files import read_json, write_json
from pipeline.results.collect import collect
from pipeline.results.file import read_result, without_folders
from pipeline.steps import stamp_path

from ..report.made_results import scored
from ..training.logs import start

STATISTICS = scored("test_x2", 0.2)["statistics"]


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


@pytest.mark.parametrize("lines", [None, [], start()])
def test_a_run_that_failed_before_its_first_update_has_none(finished, lines):
    log = finished[0] / "train.log"
    log.unlink() if lines is None else log.write_text("\n".join(lines) + "\n")
    stamp_path(finished[0], "average").unlink()
    result = result_of(finished, unfinished="killed")
    assert [result["training"][key] for key in ("updates", "target_tokens", "averaged")] == [0, 0, 0]
    assert result["curve"]["train"] == {"updates": [], "nll": []}
