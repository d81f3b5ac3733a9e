"""The report's pictures: what is drawn, of whom, and that the bytes are the same each time."""

import pytest

from pipeline.report.pictures import learning, scores

from .made_results import LEARNED, ROTARY, SINUSOIDAL, recipe, result

pytest.importorskip("matplotlib")


def test_scores_have_the_interval_of_their_difference_and_curves_the_colours_of_their_scores(tmp_path):
    for arch, rate in ((SINUSOIDAL, 0.3), (ROTARY, 0.1), (LEARNED, 0.4)):
        result(tmp_path, arch, test=rate, test_x4=rate)
    result(tmp_path, ROTARY, variant="half", test=0.2)
    made = recipe(tmp_path)
    left, right = scores(made)[1].axes
    bars = {label.get_text(): bar for label, bar in zip(left.get_yticklabels(), left.containers)}
    assert list(bars) == ["roformer", "roformer (half)", "transformer_sinusoidal", "transformer_learned"]
    found = made.differences[made.systems[0]]
    (segment,) = bars["roformer"][2][0].get_segments()
    score = made.systems[0].spread("test", "sacrebleu")[0]
    assert segment[:, 0] - score == pytest.approx([end - found.value for end in found.interval])
    curves = {line.get_label(): line.get_color() for line in right.get_lines() if line.get_linestyle() == "-"}
    assert list(curves) == ["roformer", "transformer_sinusoidal", "transformer_learned"], "no variants"
    assert all(bars[name][0].get_color() == colour for name, colour in curves.items())
    assert len([line for line in right.get_lines() if line.get_linestyle() == "--"]) == 3, "longer sentences"


def test_learning_curves_are_of_both_losses_of_each_system(tmp_path):
    for arch in (ROTARY, SINUSOIDAL):
        for seed in (1, 2):
            result(tmp_path, arch, seed, test=0.1)
    for panel in learning(recipe(tmp_path))[1].axes:
        assert [list(line.get_xdata()) for line in panel.get_lines()] == [[10, 20]] * 2
