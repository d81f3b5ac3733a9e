"""The report's pictures: what is drawn and of whom, by the plugin's own functions."""

import pytest

from pipeline.report.benchmarks import Speed
from pipeline.report.data import Report
from pipeline.report.pictures import _scores, _short, draw, to_svg
from pipeline.report.recipe import make_recipe
from pipeline.report.systems import Label
from pipeline.results.file import read_result

from .made_results import result

pytest.importorskip("matplotlib")
TUPE = {"encoding": "tupe_a", "correlations": [[[0.1, None], [-2.0, 3.0]]] * 3}
ROPE = {"encoding": "rope", "dim": 16, "base": 10000.0, "stretch": 1.0}


def drawn(folder, *runs):
    """The recipe of runs ``(arch, seed, positions)``, and its pictures; None: a result file without positions."""
    made = [
        read_result(result(folder, arch, seed, more={"positions": positions} if positions is not None else {}))
        for arch, seed, positions in runs
    ]
    report = Report([make_recipe("a b", made)], Speed(), [])
    draw(report)
    return report.recipes[0], report.pictures


def test_the_decay_has_a_line_for_each_rotation_of_the_recipe(tmp_path):
    from fairseq_rope.inspection.pictures import draw_decay
    from fairseq_rope.inspection.terms import Rotation

    other = {**ROPE, "dim": 8, "stretch": 4.0}
    recipe, pictures = drawn(
        tmp_path,
        ("a", 1, {"encoder": ROPE, "decoder": ROPE}),
        ("a", 2, {"encoder": other}),  # all seeds have that of the first
        ("b", 1, {"encoder": ROPE, "decoder": other}),
        ("c", 1, {"checkpoint": "0a"}),
    )
    assert recipe["rotations"] == [
        ("d = 8, base 10,000, positions / 4", [Label("b")]),
        ("d = 16, base 10,000", [Label("a"), Label("b")]),
    ]
    rotations = [Rotation(8, 10000.0, 4.0), Rotation(16, 10000.0)]
    assert pictures["a_b-decay.svg"] == to_svg("a_b-decay.svg", draw_decay, rotations, 250)  # and the same bytes again


def test_the_correlations_are_of_the_first_seed_that_has_them(tmp_path):
    both = {"encoder": TUPE, "decoder": {**TUPE, "encoding": "tupe_r"}}
    runs = [("t", 1, None), ("t", 2, both), ("t", 3, {"encoder": TUPE}), ("u", 1, {"decoder": TUPE, "encoder": ROPE})]
    recipe, pictures = drawn(tmp_path, *runs)
    assert recipe["correlations"] == [
        ("a_b-t-correlations.svg", Label("t"), 2, "tupe_a, tupe_r", "encoder above decoder"),
        ("a_b-u-correlations.svg", Label("u"), 1, "tupe_a", "decoder"),
    ]
    assert pictures["a_b-t-correlations.svg"].count("data:image/png") == 2 * 3 + 1  # heads, and the colours
    assert set(recipe["pictures"]) == {"valid-updates", "train-updates", "decay"}


def test_two_pictures_never_have_one_name(tmp_path):
    _, pictures = drawn(tmp_path, ("t/", 1, {"encoder": TUPE}), ("t?", 1, {"encoder": TUPE}))
    assert {"a_b-t_-correlations.svg", "a_b-t_-correlations1.svg"} <= set(pictures)


def test_names_lose_the_size_that_all_have():
    assert _short([Label("a_tiny"), Label("b_tiny", "x")]) == ["a", "b (x)"]
    assert _short([Label("a_tiny"), Label("b_base")]) == ["a_tiny", "b_base"]


@pytest.mark.parametrize(
    ("seed", "looks"), [(1, ["better than the baseline", "worse", "no significant difference"]), (2, ["not tested"])]
)
def test_systems_without_a_common_seed_are_not_drawn_as_alike(tmp_path, seed, looks):
    made = [read_result(result(tmp_path, "transformer_sinusoidal_tiny", 1, test=0.3))]
    made.append(read_result(result(tmp_path, "roformer_tiny", seed, test=0.1)))
    figure = _scores([make_recipe("a", made)])
    assert [entry.get_text() for entry in figure.legends[0].get_texts()] == [*looks, "baseline"]
