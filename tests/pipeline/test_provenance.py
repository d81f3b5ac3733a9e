"""The record of a run: its conditions, and those of a run that continues in others."""

from pipeline import provenance
from pipeline.files import read_json
from pipeline.provenance import write_record


def test_a_run_that_continues_in_other_conditions_names_both(tmp_path, monkeypatch):
    def written(threads, continues=True):
        write_record(tmp_path / "run.json", {"threads": threads, "devices": 1}, continues)
        return read_json(tmp_path / "run.json")

    first = {"machine": "a", "commit": "1", "versions": {"torch": "2"}}
    monkeypatch.setattr(provenance, "provenance", lambda: first)
    assert written(1, continues=False) == written(1) == {**first, "threads": "1", "devices": "1"}
    second = {"machine": "b", "commit": "2", "versions": {"torch": "3", "numpy": "1"}}
    monkeypatch.setattr(provenance, "provenance", lambda: second)
    changed = written(2)
    assert (changed["machine"], changed["commit"], changed["threads"]) == ("a, then b", "1, then 2", "1, then 2")
    assert changed["versions"] == {"torch": "2, then 3", "numpy": "1"}
    assert written(2) == changed  # once more in the latest ones
