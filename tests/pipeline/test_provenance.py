"""The record of a run: its conditions, and those of a run that continues in others."""

import json
import subprocess

import pytest

from pipeline import provenance
from pipeline.provenance import code, code_hash, write_record

MACHINES = {"machine": "a", "commit": "1", "versions": {"torch": "2"}}


@pytest.fixture
def written(tmp_path, monkeypatch):
    def written(continues, conditions=MACHINES, **record):
        monkeypatch.setattr(provenance, "provenance", lambda root: dict(conditions))
        write_record(tmp_path / "run.json", record, tmp_path, continues)
        return json.loads((tmp_path / "run.json").read_text())

    return written


def test_a_run_that_continues_in_the_same_conditions_keeps_its_record(written):
    first = written(False, threads=1, jobs=2, devices=1)
    assert first == {**MACHINES, "threads": "1", "jobs": "2", "devices": "1"}
    assert written(True, threads=1, jobs=2, devices=1) == first


def test_other_conditions_are_named_and_leave_the_times_out(written):
    written(False, threads=1, jobs=2, devices=1)
    other = {"machine": "b", "commit": "2", "versions": {"torch": "3", "numpy": "1"}}
    changed = written(True, other, threads=2, jobs=2, devices=1)
    assert {key: changed[key] for key in other} == {
        "machine": "a, then b",
        "commit": "1, then 2",
        "versions": {"torch": "2, then 3", "numpy": "1"},
    }
    assert changed["threads"] == "1, then 2" and "jobs" not in changed
    assert written(True, other, threads=2, jobs=2, devices=1) == changed  # once more in the latest ones
    assert written(False, threads=1, jobs=2, devices=1)["jobs"] == "2"  # a run from the beginning


@pytest.mark.parametrize("name", ["threads", "jobs", "devices"])
def test_times_need_the_same_threads_jobs_and_devices(written, name):
    written(False, threads=1, jobs=2, devices=1)
    assert "jobs" not in written(True, **{"threads": 1, "jobs": 2, "devices": 1, name: 3})


def test_a_copy_without_repository_has_a_hash_of_its_code(tmp_path):
    file = tmp_path / "scripts/train.sh"
    file.parent.mkdir()
    file.write_text("one")
    first = code(tmp_path)
    assert first == f"code {code_hash(tmp_path)}" == provenance.provenance(tmp_path)["commit"]
    (tmp_path / "scripts/train.pyc").touch()
    (tmp_path / "figures").touch()
    assert code(tmp_path) == first
    file.write_text("two")
    assert code(tmp_path) != first
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "a"]):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    assert code(tmp_path) == provenance.commit(tmp_path) and len(code(tmp_path)) == 40
