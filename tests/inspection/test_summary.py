"""The summary of a model's positions: the model's own numbers."""

import pytest

from fairseq_rope.inspection.summary import summary
from fairseq_rope.inspection.terms import tupe_correlations

from ..helpers import build_felt, build_with


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
