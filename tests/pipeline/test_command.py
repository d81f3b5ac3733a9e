"""How the commands behind the scripts end: in one line, in silence, or by the signal that they were sent."""

import os
import signal
import sys
import time

import pytest

from pipeline.paths import RUN

from ..commands import ENVIRONMENT, start

PROGRAM = """
import sys
from pipeline.command import run
def main(words):
    BODY
if __name__ == "__main__":
    run(main)
"""
POOL = """
    import time
    from concurrent.futures import ProcessPoolExecutor
    with ProcessPoolExecutor(2) as pool:
        for _ in range(2):
            pool.submit(time.sleep, 60)
        time.sleep(0.1)
        open("begun", "w").close()
        time.sleep(60)
"""


@pytest.fixture
def begin(tmp_path):
    """Starts ``main`` with this body."""

    def begin(body, **pipes):
        (tmp_path / "program.py").write_text(PROGRAM.replace("BODY", body))
        environ = {**ENVIRONMENT, "PYTHONPATH": f"{ENVIRONMENT['PYTHONPATH']}:{tmp_path}", "SCRIPT": "x.sh"}
        return start(sys.executable, RUN, "program", cwd=tmp_path, env=environ, **pipes)

    return begin


def ended(process):
    """Status and message."""
    return process.wait(60), process.stderr.read()


def test_an_output_that_is_full_is_said_once(begin):
    with open("/dev/full", "wb") as full:
        status, message = ended(begin("print('x' * 10)", stdout=full))
    assert (status, message) == (1, "x.sh: error: the output: No space left on device: make room\n")


def test_a_package_that_is_missing_is_named(begin):
    status, message = ended(begin("import no_such_package"))
    assert status == 1 and message.startswith("x.sh: error: No module named 'no_such_package': run scripts/install.sh")


def test_a_reader_that_has_seen_enough_ends_it_in_silence(begin):
    process = begin("for line in range(10**6): print(line)")
    assert process.stdout.readline() == "0\n"
    process.stdout.close()
    assert ended(process) == (-signal.SIGPIPE, "")


@pytest.mark.parametrize("moment", ["imports", "pool"])
def test_ctrl_c_ends_it_and_its_workers_in_silence(begin, tmp_path, moment):
    work = "import time; open('begun', 'w').close(); time.sleep(60)"  # before main begins
    process = begin({"imports": f"pass\n{work}", "pool": POOL.strip()}[moment])
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    assert ended(process) == (-signal.SIGINT, "")


def test_a_signal_during_a_fork_is_not_lost(begin):
    """Python ignores what a callback raises, and logging has one that runs after each fork."""
    body = """
    import os, signal, time
    os.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM))
    if not os.fork():
        os._exit(0)
    time.sleep(20)
"""
    assert ended(begin(body.strip())) == (-signal.SIGTERM, "")
