"""What a result file says of its model's positions: little, whatever the model."""

import json

import pytest

from pipeline.command import Failure
from pipeline.files import sha256
from pipeline.results.collect import collect
from pipeline.results.positions import LENGTH, positions_of

from ...model_folders import run_folder
from .collecting import result_of

LARGEST = 60_000  # bytes, of four heads on two sides


def test_the_entry_of_any_run_is_small(tmp_path):
    folder = run_folder(tmp_path / "run", "tupe_r_tiny")
    entry = positions_of(folder)
    assert len(json.dumps(entry, separators=(",", ":"))) < LARGEST
    assert list(entry) == ["checkpoint", "encoder", "decoder"] and len(entry["encoder"]["correlations"][0]) == LENGTH
    assert sha256(folder / "checkpoint.pt").startswith(entry["checkpoint"])
    foreign = run_folder(tmp_path / "foreign", "fairseq_transformer_tiny")
    assert list(positions_of(foreign)) == ["checkpoint"]


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(Failure, match="no such checkpoint"):
        positions_of(tmp_path)


def test_the_result_file_takes_the_entry_where_there_is_one(finished):
    assert "positions" not in result_of(finished)
    entry = {"checkpoint": "a", "encoder": {"base": 2}}
    assert collect(*finished, "demo", {"test1": "test_long"}, positions=entry)["positions"] == entry
