"""The file of a model's positions: small, and for no other checkpoint's result file."""

import json

import pytest
import torch

from pipeline.command import Failure
from pipeline.results.positions import LENGTH, NAME, digest, position_entry, write_positions

from ...model_folders import run_folder
from .collecting import result_of, unfinished

LARGEST = 60_000  # bytes, of four heads on two sides


def test_it_is_a_small_file_of_any_run(tmp_path):
    folder = run_folder(tmp_path / "run", "tupe_r_tiny")
    write_positions(folder)
    assert (folder / NAME).stat().st_size < LARGEST
    assert not list(folder.glob(".*.tmp"))
    entry = position_entry(folder)["positions"]
    assert entry["checkpoint"] == digest(folder / "checkpoint.pt")
    assert list(entry) == ["checkpoint", "encoder", "decoder"] and len(entry["encoder"]["correlations"][0]) == LENGTH
    foreign = run_folder(tmp_path / "foreign", "fairseq_transformer_tiny")
    write_positions(foreign)
    assert list(json.loads((foreign / NAME).read_text())) == ["format", "checkpoint"]


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(Failure, match="no such checkpoint"):
        write_positions(tmp_path)
    assert not list(tmp_path.iterdir())


def test_the_result_file_takes_the_summary_where_there_is_one(finished):
    assert "positions" not in result_of(finished)
    path = finished[0] / NAME
    path.write_text(json.dumps({"format": "fairseq_rope positions 1", "checkpoint": "a", "encoder": {"base": 2}}))
    assert result_of(finished)["positions"] == {"checkpoint": "a", "encoder": {"base": 2}}


def test_a_summary_of_another_checkpoint_keeps_no_unfinished_run_from_being_listed(finished):
    path = finished[0] / NAME
    path.write_text(json.dumps({"format": "fairseq_rope positions 1", "checkpoint": "a", "encoder": {"base": 2}}))
    torch.save({}, finished[0] / "checkpoint.pt")  # a run that went on, and was killed when it was averaged anew
    (finished[0] / "scores/test1.json").unlink()
    assert "positions" not in unfinished(finished)


def test_a_summary_of_another_checkpoint_or_form_is_refused(tmp_path):
    torch.save({}, tmp_path / "checkpoint.pt")
    path = tmp_path / NAME
    for text, message in (
        ("{", "is not JSON, or damaged: remove it and run"),
        ('{"format": "x"}', "is no summary of version"),
        ('{"format": "fairseq_rope positions 1", "checkpoint": "a"}', "is of another checkpoint than"),
    ):
        path.write_text(text)
        with pytest.raises(Failure, match=message):
            position_entry(tmp_path)
