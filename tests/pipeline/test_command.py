"""How the commands behind the scripts end: in one line, in silence, or by the signal that they were sent."""

import os
import signal
import subprocess
import sys
import time

import pytest

from pipeline.paths import RUN

from ..commands import ENVIRONMENT, ROOT, one_line, run

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
def start(tmp_path):
    """Starts ``main`` with this body, in the folder ``here``."""

    def start(body, *words, **pipes):
        (tmp_path / "modules").mkdir()
        (tmp_path / "here").mkdir(exist_ok=True)
        (tmp_path / "modules/program.py").write_text(PROGRAM.replace("BODY", body))
        environ = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONSAFEPATH"}
        environ = {**environ, "PYTHONPATH": f"{ENVIRONMENT['PYTHONPATH']}:{tmp_path / 'modules'}", "SCRIPT": "x.sh"}
        options = dict(cwd=tmp_path / "here", env=environ, stderr=subprocess.PIPE, start_new_session=True)
        return subprocess.Popen(
            [sys.executable, RUN, "program", *words],
            **options,
            **pipes,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # whoever started pytest may ignore it
        )

    return start


def ended(process):
    """Status and message."""
    return process.wait(60), process.stderr.read().decode()


def test_an_output_that_is_full_is_said_once(start):
    with open("/dev/full", "wb") as full:
        assert ended(start("print('x' * 10)", stdout=full)) == (
            1,
            "x.sh: error: the output: No space left on device: make room\n",
        )


def test_a_reader_that_has_seen_enough_ends_it_in_silence(start):
    process = start("for line in range(10**6): print(line)", stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"0\n"
    process.stdout.close()
    assert ended(process) == (-signal.SIGPIPE, "")


@pytest.mark.parametrize("moment", ["imports", "work", "pool"])
def test_ctrl_c_ends_it_and_its_workers_in_silence(start, tmp_path, moment):
    begin = "import time; open('begun', 'w').close(); time.sleep(60)"
    process = start({"imports": f"pass\n{begin}", "work": begin, "pool": POOL.strip()}[moment])
    while not (tmp_path / "here/begun").exists():
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    assert ended(process) == (-signal.SIGINT, "")


def test_a_path_that_is_not_utf_8_is_refused_before_anything_is_done(start):
    status, message = ended(start("print('done')", b"--out=/a\xff", stdout=subprocess.PIPE))
    assert (status, message) == (1, "x.sh: error: '--out=/a\\udcff' is not UTF-8: rename the file or folder\n")


def test_modules_of_the_current_folder_are_not_imported(start, tmp_path):
    (tmp_path / "here").mkdir()
    for name in ("tqdm", "json", "runpy", "pkgutil", "signal", "pipeline"):
        (tmp_path / f"here/{name}.py").write_text("raise SystemExit('harmed')")
    assert ended(start("import tqdm, json, pkgutil, pipeline.progress")) == (0, "")


def test_a_symbolic_link_to_itself_is_one_line(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    sets = [word for name in ("train", "valid", "test") for word in (f"--{name}", ROOT / "data/demo/valid")]
    one_line(run("scripts/prepare.sh", *sets, "--out", tmp_path / "loop", fails=True), "loop")
    inputs = ["--inputs", tmp_path / "loop", "--out", tmp_path / "average.pt"]
    one_line(run("fairseq-rope", "average", *inputs, fails=True), "loop")
