"""When a sweep counts a run as finished."""

import msgspec
import pytest

from pipeline.results.file import read_result
from pipeline.results.finished import is_finished, is_finished_otherwise, summary, table

from ...commands import ROOT

SETTINGS = "data 12ab\ntrain --arch roformer_tiny --seed 1\n"
TESTS = ["news", "val"]


@pytest.fixture
def result():
    """A finished run of the demo, with its scores under the names of TESTS."""
    result = read_result(ROOT / "results/demo-roformer_tiny-seed1.json")
    return msgspec.structs.replace(result, settings=SETTINGS.strip(), tests=dict(zip(TESTS, result.tests.values())))


def test_a_run_is_finished_with_its_settings_updates_and_test_sets(result):
    assert is_finished(result, SETTINGS, 1000, 5, TESTS) and is_finished(result, SETTINGS, 1000, 5, TESTS[:1])
    assert not is_finished(result, SETTINGS.replace("12ab", "34cd"), 1000, 5, TESTS), "other data"
    assert not is_finished(result, SETTINGS + "--dropout 0.3", 1000, 5, TESTS), "other flags"
    assert not is_finished(result, SETTINGS, 2000, 5, TESTS), "more updates"
    assert not is_finished(result, SETTINGS, 1000, 1, TESTS), "another number of averaged checkpoints"
    assert not is_finished(result, SETTINGS, 1000, 5, [*TESTS, "news_x2"]), "another test set"
    assert not is_finished(msgspec.structs.replace(result, unfinished="killed"), SETTINGS, 1000, 5, TESTS)


def test_a_finished_run_with_other_settings_is_told_from_one_that_is_not_finished(result):
    assert not is_finished_otherwise(result, SETTINGS, 1000, 5)
    assert is_finished_otherwise(result, SETTINGS, 1001, 5) and is_finished_otherwise(result, "other", 1000, 5)
    assert not is_finished(result, SETTINGS, 1000, 5, ["news_x2"])
    assert not is_finished_otherwise(msgspec.structs.replace(result, unfinished="killed"), SETTINGS, 1001, 5)


def test_the_table_has_a_row_for_each_run_and_test_set(result):
    lines = table([result, msgspec.structs.replace(result, variant="half", seed=2)]).splitlines()
    assert [lines[1], lines[4]] == ["roformer_tiny seed 1", "roformer_tiny (half) seed 2"]
    for line, test in zip([*lines[2:4], *lines[5:7]], [*TESTS, *TESTS]):
        assert line.startswith(f"  {test} ") and len(line) == len(lines[0]) == 80
    score = result.tests["val"].scores["sacrebleu"]["score"]
    assert f" {score:.2f} " in lines[3] and f"val {score:.2f}" in summary(result)


def test_a_long_name_of_a_test_set_is_cut_in_its_middle_and_a_missing_score_is_a_dash(result):
    """Sets of joined sentences differ at the end of their names."""
    test = msgspec.structs.replace(result.tests["val"], scores={**result.tests["val"].scores, "chrf": None})
    made = msgspec.structs.replace(result, tests={"test_2016_of_the_long_name_x4": test})
    line = table([made]).splitlines()[2]
    assert line.startswith("  test_201…ng_name_x4 ") and line.split()[4] == "-" and len(line) == 80
