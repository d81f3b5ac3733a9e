"""When a sweep counts a run as finished."""

import copy
import json

import pytest

from pipeline.results.file import FORMAT
from pipeline.results.finished import is_finished, is_finished_otherwise, summary, table

from ...commands import ROOT

SETTINGS = "data 12ab\ntrain --arch roformer_tiny --seed 1\n"
TESTS = ["news", "val"]


@pytest.fixture
def result():
    """A finished run of the demo, with its scores under the names of TESTS."""
    result = json.loads((ROOT / "results/demo-roformer_tiny-seed1.json").read_text(encoding="utf-8"))
    assert result["format"] == FORMAT
    result["settings"] = SETTINGS.strip()
    result["run"]["max_update"] = "1000"
    result["tests"] = dict(zip(TESTS, result["tests"].values()))
    return result


def test_a_run_is_finished_with_its_settings_updates_and_test_sets(result):
    assert is_finished(result, SETTINGS, 1000, TESTS) and is_finished(result, SETTINGS, 1000, TESTS[:1])
    assert not is_finished(result, SETTINGS.replace("12ab", "34cd"), 1000, TESTS), "other data"
    assert not is_finished(result, SETTINGS + "--dropout 0.3", 1000, TESTS), "other flags"
    assert not is_finished(result, SETTINGS, 2000, TESTS), "more updates"
    assert not is_finished(result, SETTINGS, 1000, [*TESTS, "news_x2"]), "another test set"
    assert not is_finished({**result, "unfinished": "killed"}, SETTINGS, 1000, TESTS)


def test_a_finished_run_with_other_settings_is_told_from_one_that_is_not_finished(result):
    assert not is_finished_otherwise(result, SETTINGS, 1000)
    assert is_finished_otherwise(result, SETTINGS, 1001) and is_finished_otherwise(result, "other", 1000)
    further = [*TESTS[:1], "news_x2"]
    assert not is_finished(result, SETTINGS, 1000, further) and not is_finished_otherwise(result, SETTINGS, 1000)
    assert not is_finished_otherwise({**result, "unfinished": "killed"}, SETTINGS, 1001)


def test_the_table_has_a_row_for_each_run_and_test_set(result):
    other = copy.deepcopy(result)
    other["variant"], other["seed"] = "half", 2
    lines = table([result, other]).splitlines()
    names = ["roformer_tiny seed 1", "roformer_tiny (half) seed 2"]
    for line, name in zip(lines[1:5], [f"{name} {test}" for name in names for test in TESTS]):
        assert line.startswith(f"{name} ")
    score = result["tests"]["val"]["scores"]["sacrebleu"]["score"]
    assert f"{score:.2f}" in lines[2] and f"val {score:.2f}" in summary(result)
