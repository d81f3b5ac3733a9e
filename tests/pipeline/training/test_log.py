"""What is counted in the log of a training, with a resume in it."""

import math

import pytest

from pipeline.results import POINTS
from pipeline.training.log import Point, read_log, thinned

from .logs import KILLED, RESUMED, epoch, inner, start


def read(tmp_path, lines):
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + "\n")
    return read_log(path)


def test_what_a_kill_lost_counts_neither_as_updates_nor_as_tokens(tmp_path):
    log = read(tmp_path, [*KILLED, inner(35, 50)[:-9], *RESUMED])
    assert (log.updates, log.parameters) == (42, 1234)
    assert log.tokens == 10 * 100 + 10 * 110 + 10 * 120 + 10 * 130 + 2 * 140
    assert [point.updates for point in log.train] == [10, 20, 30, 40]
    assert [(point.updates, point.nll) for point in log.valid] == [(20, 3), (30, 2)]


def test_a_training_that_began_anew_counts_once(tmp_path):
    log = read(tmp_path, [*start(), inner(10, 999), inner(20, 999), *start(), inner(10, 100)])
    assert (log.updates, log.tokens) == (10, 1000)


def test_a_run_too_short_for_a_line_every_ten_updates_has_the_mean_of_its_epoch(tmp_path):
    log = read(tmp_path, [*start(), epoch(4, 100.5)])
    assert (log.updates, log.tokens) == (4, 402)


def test_the_rate_does_not_depend_on_a_pause(tmp_path):
    lines = [inner(10 * n, 100, wps=str(rate)) for n, rate in enumerate((90, 100, 1, 110, 95), start=1)]
    assert read(tmp_path, [*start(), *lines]).rate == 95


@pytest.mark.parametrize("count", [1, 150, 151, 1000])
def test_a_thinned_curve_has_its_end_and_its_mean(count):
    points = [Point(i, float(i % 7)) for i in range(1, count + 1)]
    few, size = thinned([*points, Point(count + 1, math.nan)], POINTS), -(-count // POINTS)
    assert len(few) <= POINTS and few[-1].updates == count
    assert few[0].nll == pytest.approx(sum(point.nll for point in points[:size]) / size)
