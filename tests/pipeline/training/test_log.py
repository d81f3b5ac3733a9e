"""What is counted in the log of a training, with a resume in it; curves of few points."""

from pipeline.training.log import read_log

from .logs import KILLED, RESUMED, epoch, inner, stamp, start


def read(tmp_path, lines):
    path = tmp_path / "train.log"
    path.write_text("\n".join(lines) + "\n")
    return read_log(path)


def test_what_a_kill_lost_counts_neither_as_updates_nor_as_tokens_nor_as_time(tmp_path):
    log = read(tmp_path, [*KILLED, inner(35, 50, 70)[:-9], *RESUMED])
    assert (log.updates, log.processes, log.parameters, log.trained) == (42, 2, 1234, 1200)
    assert log.tokens == 10 * 100 + 10 * 110 + 10 * 120 + 10 * 130 + 2 * 140
    assert log.seconds == 42 + 55  # the pause between the processes does not count
    assert [(p.updates, p.seconds) for p in log.train] == [(10, 20), (20, 40), (30, 67), (40, 92)]
    assert [(p.updates, p.seconds, p.nll) for p in log.valid] == [(20, 42, 3), (30, 71, 2)]


def test_a_line_has_the_last_time_in_it_or_that_of_the_line_before(tmp_path):
    """A kill cuts a line, and the next one goes on behind it."""
    lines = [*start(), stamp(5)[:-9] + inner(10, 1, 20), inner(20, 1, 40)[22:]]
    assert [point.seconds for point in read(tmp_path, lines).train] == [20, 20]


def test_a_training_that_began_anew_counts_once(tmp_path):
    log = read(tmp_path, [*start(), inner(10, 999, 20), *start(), inner(10, 100, 30)])
    assert (log.updates, log.tokens, log.seconds, log.processes) == (10, 1000, 30, 2)


def test_a_process_killed_before_its_first_line_loses_nothing(tmp_path):
    assert read(tmp_path, [*KILLED, *start(20)]).train == read(tmp_path, KILLED).train


def test_a_run_too_short_for_a_line_every_ten_updates_has_the_mean_of_its_epoch(tmp_path):
    log = read(tmp_path, [*start(), epoch(4, 100.5, 3)])
    assert (log.updates, log.tokens, log.seconds) == (4, 402, 3)


def test_the_rate_does_not_depend_on_a_pause(tmp_path):
    rates, walls = (90, 100, 1, 110, 95), (10, 20, 1020, 1029, 1039)
    lines = [inner(10 * n, 100, wall, wps=str(rate)) for n, (wall, rate) in enumerate(zip(walls, rates), start=1)]
    log = read(tmp_path, [*start(), *lines])
    assert log.rate == 95 and log.seconds == 1039
    assert read(tmp_path, [*start(), epoch(4, 100, 8)]).rate == 400 / 8
