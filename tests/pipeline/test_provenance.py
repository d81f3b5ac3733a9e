"""The record of a run: its conditions, and those of a run that continues in others."""

import json

import pytest

from pipeline import provenance
from pipeline.provenance import write_record

MACHINES = {"machine": "a", "commit": "1", "versions": {"torch": "2"}}


@pytest.fixture
def written(tmp_path, monkeypatch):
    def written(continues, conditions=MACHINES, **record):
        monkeypatch.setattr(provenance, "provenance", lambda root: dict(conditions))
        write_record(tmp_path / "run.json", record, tmp_path, continues)
        return json.loads((tmp_path / "run.json").read_text())

    return written


def test_a_run_that_continues_in_the_same_conditions_keeps_its_record(written):
    first = written(False, threads=1, devices=1)
    assert first == {**MACHINES, "threads": "1", "devices": "1"}
    assert written(True, threads=1, devices=1) == first


def test_other_conditions_are_named(written):
    written(False, threads=1)
    other = {"machine": "b", "commit": "2", "versions": {"torch": "3", "numpy": "1"}}
    changed = written(True, other, threads=2)
    assert {key: changed[key] for key in other} == {
        "machine": "a, then b",
        "commit": "1, then 2",
        "versions": {"torch": "2, then 3", "numpy": "1"},
    }
    assert changed["threads"] == "1, then 2"
    assert written(True, other, threads=2) == changed  # once more in the latest ones
