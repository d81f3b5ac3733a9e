"""Pictures of what positions contribute: the files, and what is refused."""

import struct

import pytest
import torch

from fairseq_rope.__main__ import main
from fairseq_rope.inspection.pictures import draw_distances, draw_maps
from fairseq_rope.inspection.terms import by_distance

from ..commands import failure
from ..model_folders import language_run_folder, run_folder


def draw(tmp_path, capsys, *arguments):
    out = tmp_path / "new" / "picture.png"
    assert main(["plot", *map(str, arguments), "--out", str(out)]) == 0
    assert capsys.readouterr() == (f"{out}: {arguments[0]}\n", "")
    data = out.read_bytes()
    assert data.startswith(b"\x89PNG") and all(300 < size < 3000 for size in struct.unpack(">II", data[16:24]))


def test_every_picture_is_written(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    folder = run_folder(tmp_path / "run", "tupe_r_tiny")
    draw(tmp_path, capsys, "decay", "--rope-dim", "8", "16", "--rope-base", "10", "100", "--max-distance", "20")
    draw(tmp_path, capsys, "tupe", folder, "--length", "9")
    draw(tmp_path, capsys, "bias", folder, "--length", "9", "--sentences", "3", "--side", "decoder")
    draw(tmp_path, capsys, "bias", folder, "--length", "9", "--sentences", "3", "--by-distance")


def test_a_query_is_a_row_and_later_keys_are_on_the_right():
    pytest.importorskip("matplotlib")
    values = torch.arange(18.0).view(2, 3, 3)
    for head, axes in enumerate(draw_maps({"x": values}, 4, "", "").axes[:2]):
        assert axes.images[0].get_array().tolist() == values[head].tolist()
    lines = draw_distances(values[None], "").axes[0].get_lines()
    for head, line in enumerate(lines[:2]):
        assert list(line.get_xdata()) == [-2, -1, 0, 1, 2]
        assert list(line.get_ydata()) == by_distance(values[None])[0, head].tolist()


def test_language_models_are_drawn_with_the_side_that_they_have(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    draw(tmp_path, capsys, "tupe", language_run_folder(tmp_path / "masked", "tupe_a_mlm_tiny"), "--length", "9")
    causal = language_run_folder(tmp_path / "causal", "tupe_r_lm_tiny")
    draw(tmp_path, capsys, "bias", causal, "--length", "9", "--sentences", "3")


def test_models_that_do_not_fit_give_one_line_and_no_file(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    linear, out = run_folder(tmp_path / "linear", "roformer_linear_tiny"), tmp_path / "x.png"
    for kind, message in (("bias", "linear attention"), ("tupe", "the encoding linear")):
        assert message in failure(capsys, "plot", kind, linear, "--out", out)
    foreign = run_folder(tmp_path / "foreign", "fairseq_transformer_tiny")
    assert "fairseq's own model" in failure(capsys, "plot", "bias", foreign, "--out", out)
    assert not out.exists()
