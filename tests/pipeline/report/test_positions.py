"""The report's pictures of positions: the decay is the model's, what is drawn and of whom, the same bytes again."""

import re
import subprocess
import sys

import numpy as np
import pytest

from fairseq_rope.inspection.terms import long_term_decay as decay_of_the_encoding
from pipeline.report.document import Heading, Paragraph, Picture, to_html
from pipeline.report.position_figures import MAX_DISTANCE, Rotation, draw_decay, draw_maps, long_term_decay
from pipeline.report.positions import CORRELATIONS, DECAY, TITLE, blocks
from pipeline.report.systems import System

from .test_build import NASTY

TUPE = {"encoding": "tupe_a", "correlations": [[[0.1, None], [-2.0, 3.0]]] * 3}
ROPE = {"encoding": "rope", "dim": 16, "base": 10000.0, "stretch": 1.0}


def system(arch, *seeds, variant=""):
    """Of seeds 1, 2, ... with these positions; None: a result file of before there were any."""
    return System(arch, variant, {i: {"positions": p} if p is not None else {} for i, p in enumerate(seeds, 1)})


@pytest.mark.parametrize("dim,base", [(2, 10000.0), (8, 100.0), (32, 10000.0), (64, 10000.0), (128, 10000.0)])
def test_the_decay_is_that_of_the_encoding(dim, base):
    expected = decay_of_the_encoding(dim, base, MAX_DISTANCE).numpy()
    np.testing.assert_allclose(long_term_decay(Rotation(dim, base, 1.0)), expected, rtol=0, atol=1e-12)


def test_divided_positions_stretch_the_decay():
    stretched = long_term_decay(Rotation(16, 10000.0, 4.0), 100)
    np.testing.assert_array_equal(stretched[::4], long_term_decay(Rotation(16, 10000.0, 1.0), 25))
    assert str(Rotation(16, 10000.0, 4.0)) == "d = 16, base 10,000, positions / 4"


def test_the_decay_has_a_line_for_each_rotation_of_the_recipe():
    pytest.importorskip("matplotlib")
    other = {**ROPE, "dim": 8}
    systems = [
        system("a", {"encoder": ROPE, "decoder": ROPE}, {"encoder": other}),  # all seeds have that of the first
        system("b", {"encoder": ROPE, "decoder": other}),
        system("c", {}),
    ]
    heading, reading, picture = blocks("r", systems, "")
    assert heading == Heading(3, TITLE) and reading == Paragraph(DECAY)
    assert picture.caption == "Long-term decay of RoPE. d = 8, base 10,000: b; d = 16, base 10,000: a, b."
    assert picture.file == "r-decay.svg"
    assert picture.svg == draw_decay([Rotation(8, 10000.0, 1.0), Rotation(16, 10000.0, 1.0)])


def test_the_correlations_are_of_the_first_seed_that_has_them():
    pytest.importorskip("matplotlib")
    systems = [
        system("t", None, {"encoder": TUPE, "decoder": {**TUPE, "encoding": "tupe_r"}}, {"encoder": TUPE}, variant="x"),
        system("u", {"decoder": TUPE, "encoder": ROPE}),
    ]
    _, reading, first, second, *rest = blocks("a b", systems, "")
    assert reading == Paragraph(CORRELATIONS) and [type(block) for block in rest] == [Paragraph, Picture]
    assert "positions (tupe_a, tupe_r) of t (x), seed 2: encoder above decoder, one column" in first.caption
    assert "positions (tupe_a) of u, seed 1: decoder, one column" in second.caption
    assert (first.file, second.file) == ("a_b-t__x_-correlations.svg", "a_b-u-correlations.svg")
    assert first.svg.count("data:image/png") == 2 * 3 + 1  # heads of both sides, and the colours
    assert second.svg.count("data:image/png") == 3 + 1


def test_the_colours_are_white_at_0_and_end_at_the_largest_but_one_per_cent(monkeypatch):
    pytest.importorskip("matplotlib")
    from matplotlib.axes import Axes

    drawn = []
    real = Axes.imshow
    monkeypatch.setattr(
        Axes, "imshow", lambda self, *args, **kwargs: drawn.append(kwargs) or real(self, *args, **kwargs)
    )
    draw_maps({"encoder": [[[1.0, 1.0]] * 100], "decoder": [[[-50.0, None]] + [[1.0, None]] * 199]}, "x")
    assert [(kwargs["vmin"], kwargs["vmax"]) for kwargs in drawn] == [(-1, 1)] * 2
    drawn.clear()
    draw_maps({"encoder": [[[0.0]]]}, "x")
    assert drawn[0]["vmax"] == 1


def test_many_heads_take_several_rows():
    pytest.importorskip("matplotlib")
    wide = draw_maps({"encoder": [[[1.0]]] * 10}, "x")
    assert wide.count("data:image/png") == 10 + 1
    assert float(re.search(r'width="([\d.]+)pt"', wide)[1]) == pytest.approx(72 * (8 * 1.7 + 1.6))  # eight in a row


def test_the_same_positions_make_the_same_bytes():
    pytest.importorskip("matplotlib")
    code = "from pipeline.report.position_figures import draw_maps; "
    code += "print(draw_maps({'encoder': [[[1.0, None]]]}, 'x'), end='')"
    made = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(2)]
    assert made[0] == made[1] == draw_maps({"encoder": [[[1.0, None]]]}, "x").encode()
    assert draw_decay([Rotation(8, 100.0, 1.0)]) == draw_decay([Rotation(8, 100.0, 1.0)])


def test_without_positions_or_matplotlib_there_is_no_section():
    assert blocks("r", [system("a", None), system("b", {"checkpoint": "0a"}), System("c")], "") == []
    assert blocks("r", [system("a", {"encoder": ROPE})], "Left out") == []


def test_names_are_escaped_in_the_page():
    pytest.importorskip("matplotlib")
    page = to_html(blocks(NASTY, [system(NASTY, {"encoder": TUPE})], ""), "x")
    assert "<b>" not in page and "&lt;b&gt;" in page
