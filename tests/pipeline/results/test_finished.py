"""When a sweep counts a run as finished."""

import copy
import json

import pytest

from pipeline.results.file import FORMAT, write_result
from pipeline.results.finished import is_finished, summary, table

from ...commands import ROOT, run

SETTINGS = "data 12ab\ntrain --arch roformer_tiny --seed 1\n"
TESTS = ["news", "val"]


@pytest.fixture
def result():
    """A finished run of the demo, with its scores under the names of TESTS."""
    found = json.loads((ROOT / "results/demo-roformer_tiny-seed1.json").read_text(encoding="utf-8"))
    assert found["format"] == FORMAT
    found["settings"] = SETTINGS.strip()
    found["run"]["max_update"] = "1000"
    found["tests"] = dict(zip(TESTS, found["tests"].values()))
    return found


def test_a_run_is_finished_with_its_settings_updates_and_test_sets(result):
    assert is_finished(result, SETTINGS, 1000, TESTS) and is_finished(result, SETTINGS, 1000, TESTS[:1])
    assert not is_finished(result, SETTINGS.replace("12ab", "34cd"), 1000, TESTS), "other data"
    assert not is_finished(result, SETTINGS + "--dropout 0.3", 1000, TESTS), "other flags"
    assert not is_finished(result, SETTINGS, 2000, TESTS), "more updates"
    assert not is_finished(result, SETTINGS, 1000, [*TESTS, "news_x2"]), "another test set"
    assert not is_finished({**result, "unfinished": "killed"}, SETTINGS, 1000, TESTS)


def test_the_command_says_so_by_its_exit_status(result, tmp_path):
    file = tmp_path / "result.json"
    write_result(result, file)
    command = ["python", ROOT / "fairseq_rope/tools/sweep.py", "finished", file, "--subsets", "test=news valid=val"]
    run(*command, "--max-update", 1000, "--settings", SETTINGS)
    assert run(*command, "--max-update", 1001, "--settings", SETTINGS, fails=True).returncode == 3
    assert run(*command, "--max-update", 1000, "--settings", "other", fails=True).returncode == 3
    further = [*command[:-1], "test=news test1=news_x2"]
    assert run(*further, "--max-update", 1000, "--settings", SETTINGS, fails=True).returncode == 1
    write_result({**result, "unfinished": "killed"}, file)
    assert run(*command, "--max-update", 1001, "--settings", SETTINGS, fails=True).returncode == 1
    file.write_text("{")
    assert "damaged" in run(*command, "--max-update", 1000, "--settings", SETTINGS, fails=True).stderr


def test_the_table_has_a_row_for_each_run_and_test_set(result):
    other = copy.deepcopy(result)
    other["variant"], other["seed"] = "half", 2
    lines = table([result, other]).splitlines()
    names = ["roformer_tiny seed 1", "roformer_tiny (half) seed 2"]
    for line, name in zip(lines[1:5], [f"{name} {test}" for name in names for test in TESTS]):
        assert line.startswith(f"{name} ")
    score = result["tests"]["val"]["scores"]["sacrebleu"]["score"]
    assert f"{score:.2f}" in lines[2] and f"val {score:.2f}" in summary(result)
