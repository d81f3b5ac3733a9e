"""Blocks of lines on several processors: nothing is lost or changes places, what a kill leaves."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from pipeline.command import Failure
from pipeline.text import blocks

from ...commands import ENVIRONMENT


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


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 3, 50])
def test_every_line_is_worked_on_once_and_stays_in_its_place(tmp_path, workers, count):
    lines = [f"{number}" if number % 4 else f"{number} \u2028ä\x85" for number in range(count)]
    made = blocks.over_blocks(slower_at_first, text(tmp_path, lines), workers, "x")
    assert [line for block in made for line in block] == [line.upper() for line in lines]


def fail(error, lines):
    if "7" in lines:
        error()
    return lines


def test_an_error_in_a_process_is_one_of_the_caller(tmp_path):
    source = text(tmp_path, range(50))
    with pytest.raises(ZeroDivisionError):
        list(blocks.over_blocks(partial(fail, partial(divmod, 1, 0)), source, 2, "x"))
    with pytest.raises(Failure, match="x: a process was ended: is there enough memory"):
        list(blocks.over_blocks(partial(fail, _kill_itself), source, 2, "x"))
    with pytest.raises(Failure, match="a process was ended: is there enough memory"):
        blocks.in_process(_kill_itself, "x")


def _kill_itself():
    os.kill(os.getpid(), signal.SIGKILL)


def test_an_interrupted_call_does_not_wait_for_the_other_process():
    """As the library that learns pieces hears no signals."""
    signal.signal(signal.SIGALRM, lambda *_: divmod(1, 0))
    signal.alarm(1)
    start = time.monotonic()
    with pytest.raises(ZeroDivisionError):
        blocks.in_process(partial(time.sleep, 60), "x")
    assert time.monotonic() - start < 20


def test_processes_end_with_a_parent_that_was_killed(tmp_path):
    program = "import time; from pathlib import Path; from pipeline.text.blocks import over_blocks\n"
    program += "def slow(lines): time.sleep(60)\n"
    program += f"list(over_blocks(slow, Path({str(text(tmp_path, range(50)))!r}), 2, 'x'))"
    process = subprocess.Popen([sys.executable, "-c", program], env=ENVIRONMENT)
    while len(children := _children(process.pid)) < 1:
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.5)  # they begin to watch
    process.kill()
    process.wait()
    deadline = time.monotonic() + 20
    while any(map(_alive, children)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(_alive, children))


def _children(pid):
    return subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()


def _alive(pid):
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()
