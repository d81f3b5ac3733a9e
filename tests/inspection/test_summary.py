"""The summary of a model's positions: the model's own numbers, small, and for no other checkpoint's result file."""

import json

import pytest
import torch

from fairseq_rope.inspection.summary import LENGTH, main, summary
from fairseq_rope.inspection.terms import tupe_correlations
from pipeline.results.file import ResultError
from pipeline.results.positions import NAME, digest, position_entry

from ..helpers import build_felt, build_with
from ..pipeline.results.test_collect import finished, result_of, unfinished  # noqa: F401  (a fixture)
from .test_pictures import run_folder

LARGEST = 60_000  # bytes, of four heads on two sides


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
    sides = summary(model)
    assert {side: len(entry["correlations"][0]) for side, entry in sides.items()} == {"encoder": 12, "decoder": LENGTH}
    with pytest.raises(ValueError, match="--length must be at least 1, not 0"):
        summary(model, 0)


def test_each_side_has_what_its_own_encoding_gives():
    model = build_with("rope", rope_dim=4, rope_base=500.0, decoder_position="tupe_a")
    sides = summary(model, 5)
    assert sides["encoder"] == {"encoding": "rope", "dim": 4, "base": 500.0, "stretch": 1.0}
    assert sides["decoder"]["encoding"] == "tupe_a"
    assert list(summary(build_with("t5", decoder_position="rope"))) == ["decoder"]
    assert summary(build_with("sinusoidal")) == {}


def test_scaled_rotations_have_the_base_or_the_divisor_that_they_turn_with():
    scaled = dict(rope_scaling="linear", rope_scaling_factor=4.0)
    assert summary(build_with("rope", **scaled))["encoder"]["stretch"] == 4
    model = build_with("rope", **{**scaled, "rope_scaling": "ntk"})
    entry = summary(model)["encoder"]
    assert entry["stretch"] == 1 and entry["base"] == model.encoder.position.frequency_base() > 10000


def test_the_tool_writes_a_small_file_of_any_run(tmp_path, capsys):
    folder = run_folder(tmp_path / "run", "tupe_r_tiny")
    main([str(folder)])
    assert capsys.readouterr().out == f"{folder / NAME}: encoder tupe_r, decoder tupe_r\n"
    assert (folder / NAME).stat().st_size < LARGEST
    assert not list(folder.glob("*.tmp"))
    entry = position_entry(folder)["positions"]
    assert entry["checkpoint"] == digest(folder / "checkpoint.pt")
    assert list(entry) == ["checkpoint", "encoder", "decoder"] and len(entry["encoder"]["correlations"][0]) == LENGTH
    foreign = run_folder(tmp_path / "foreign", "fairseq_transformer_tiny")
    main([str(foreign), "--out", str(tmp_path / "x.json")])
    assert "x.json: nothing to draw" in capsys.readouterr().out
    assert list(json.loads((tmp_path / "x.json").read_text())) == ["format", "checkpoint"]


def test_a_folder_without_a_model_is_refused_in_one_line(tmp_path):
    with pytest.raises(SystemExit) as exit_:
        main([str(tmp_path)])
    assert str(exit_.value).startswith("error: ") and "\n" not in str(exit_.value)
    assert not list(tmp_path.iterdir())


def test_the_result_file_takes_the_summary_where_there_is_one(finished):  # noqa: F811
    assert "positions" not in result_of(finished)
    path = finished[0] / NAME
    path.write_text(json.dumps({"format": "fairseq_rope positions 1", "checkpoint": "a", "encoder": {"base": 2}}))
    assert result_of(finished)["positions"] == {"checkpoint": "a", "encoder": {"base": 2}}


def test_a_summary_of_another_checkpoint_keeps_no_unfinished_run_from_being_listed(finished):  # noqa: F811
    path = finished[0] / NAME
    path.write_text(json.dumps({"format": "fairseq_rope positions 1", "checkpoint": "a", "encoder": {"base": 2}}))
    torch.save({}, finished[0] / "checkpoint.pt")  # a run that went on, and was killed when it was averaged anew
    (finished[0] / "scores/test1.json").unlink()
    assert "positions" not in unfinished(finished)


def test_a_summary_of_another_checkpoint_or_form_is_refused(tmp_path):
    torch.save({}, tmp_path / "checkpoint.pt")
    path = tmp_path / NAME
    for text, message in (
        ("{", "is damaged: run python -m fairseq_rope.inspection.summary"),
        ('{"format": "x"}', "is no summary of version"),
        ('{"format": "fairseq_rope positions 1", "checkpoint": "a"}', "is of another checkpoint than"),
    ):
        path.write_text(text)
        with pytest.raises(ResultError, match=message):
            position_entry(tmp_path)
