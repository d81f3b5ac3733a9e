"""Blocks of lines on several processors: nothing is lost or changes places."""

import os
import signal
import time
from functools import partial

import pytest

from pipeline.command import Failure
from pipeline.text import blocks


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(blocks, "LINES", 3)


def text(tmp_path, lines):
    path = tmp_path / "input"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def slower_at_first(lines):
    time.sleep(0.2 if "0" in lines else 0)
    return [line.upper() for line in lines]


@pytest.mark.parametrize(("count", "workers"), [(0, 3), (3, 1), (50, 1), (50, 3)])
def test_every_line_is_worked_on_once_and_stays_in_its_place(tmp_path, workers, count):
    lines = [f"{number}" if number % 4 else f"{number} \u2028ä\x85" for number in range(count)]
    made = blocks.over_blocks(slower_at_first, text(tmp_path, lines), workers, "x")
    assert [line for block in made for line in block] == [line.upper() for line in lines]


def fail(error, lines):
    if "7" in lines:
        error()
    return lines


def _kill_itself():
    os.kill(os.getpid(), signal.SIGKILL)


def test_an_error_in_a_process_is_one_of_the_caller(tmp_path):
    source = text(tmp_path, range(50))
    with pytest.raises(ZeroDivisionError):
        list(blocks.over_blocks(partial(fail, partial(divmod, 1, 0)), source, 2, "x"))
    with pytest.raises(Failure, match="x: a process was ended: is there enough memory"):
        list(blocks.over_blocks(partial(fail, _kill_itself), source, 2, "x"))
