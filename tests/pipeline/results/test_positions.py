"""What a result file says of its model's positions: little, whatever the model."""

import json

import pytest

from fairseq_rope.inspection.terms import tupe_correlations
from pipeline.command import Failure
from pipeline.files import sha256
from pipeline.results.collect import collect
from pipeline.results.positions import LENGTH, positions_of, summary

from ...helpers import build_felt, build_with
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


@pytest.mark.parametrize("encoding", ["tupe_a", "tupe_r"])
def test_the_correlations_are_those_of_the_model_with_three_digits(encoding):
    model = build_felt(encoding)
    for side, entry in summary(model, 9).items():
        assert entry["encoding"] == encoding
        expected = tupe_correlations(model, side, 9)
        for values, rows in zip(expected.tolist(), entry["correlations"]):
            for i, (row, cells) in enumerate(zip(values, rows)):
                for j, (value, cell) in enumerate(zip(row, cells)):
                    if side == "decoder" and j > i:
                        assert cell is None
                    else:
                        assert cell == float(f"{value:.2e}")


def test_no_more_positions_are_summarised_than_the_table_has():
    model = build_felt("tupe_a", max_source_positions=12)
    sides = summary(model, 32)
    assert {side: len(entry["correlations"][0]) for side, entry in sides.items()} == {"encoder": 12, "decoder": 32}


def test_each_side_has_what_its_own_encoding_gives():
    model = build_with("rope", rope_dim=4, rope_base=500.0, decoder_position="tupe_a")
    sides = summary(model, 5)
    assert sides["encoder"] == {"encoding": "rope", "dim": 4, "base": 500.0, "stretch": 1.0}
    assert sides["decoder"]["encoding"] == "tupe_a"
    assert list(summary(build_with("t5", decoder_position="rope"), 5)) == ["decoder"]
    assert summary(build_with("sinusoidal"), 5) == {}


def test_a_language_model_has_one_side():
    assert list(summary(build_with("rope", "mlm"), 5)) == ["encoder"]
    assert list(summary(build_with("tupe_a", "lm"), 5)) == ["decoder"]
    assert summary(build_with("t5", "lm"), 5) == {}


def test_scaled_rotations_have_the_base_or_the_divisor_that_they_turn_with():
    scaled = dict(rope_scaling="linear", rope_scaling_factor=4.0)
    assert summary(build_with("rope", **scaled), 5)["encoder"]["stretch"] == 4
    model = build_with("rope", **{**scaled, "rope_scaling": "ntk"})
    entry = summary(model, 5)["encoder"]
    assert entry["stretch"] == 1 and entry["base"] == model.encoder.position.frequency_base() > 10000
