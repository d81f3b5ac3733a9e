"""Result files of runs that did not finish: what their logs have, and never in the place of scores."""

import json

import pytest

from pipeline.command import Failure
from pipeline.files import to_text
from pipeline.results.file import read_result, write_result
from pipeline.steps import stamp_path

from ..training.logs import KILLED, start
from .collecting import result_of, unfinished


def test_of_a_run_that_was_killed_there_is_what_its_log_has(finished, tmp_path):
    stamp_path(finished[0], "train").unlink()
    (finished[0] / "train.log").write_text("\n".join(KILLED) + "\n")
    result = unfinished(finished, f"killed\n in {finished[0]}/train.log and {finished[1]}", variant="x")
    assert result["unfinished"] == "killed in RUN/train.log and DATA" and result["variant"] == "x"
    assert result["tests"] == {} and result["curve"]["valid"]["updates"] == [20, 30]
    training = result["training"]
    assert (training["updates"], training["seconds"], training["parameters"]) == (30, 63, 1234)
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
