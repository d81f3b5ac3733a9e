"""Files are written whole or not at all, and two writers of one file do not disturb each other."""

import hashlib
import os
import signal
import stat
import subprocess
import sys
from functools import partial

import pytest

from pipeline.command import Failure
from pipeline.files import BLOCK, read_json, replacing, sha256, write_json, write_text
from pipeline.lock import locked
from pipeline.paths import SCRIPTS
from pipeline.steps import Steps, stamp_path

from ..disks import full_disk, read_only


def test_the_hash_is_that_of_the_whole_file(tmp_path):
    for size in (0, 1, BLOCK, BLOCK + 1):
        content = os.urandom(size)
        (tmp_path / "a").write_bytes(content)
        assert sha256(tmp_path / "a") == hashlib.sha256(content).hexdigest()


def test_text_is_written_as_it_is_in_utf_8(tmp_path):
    write_text(tmp_path / "a", "ä\r\nb\u2028c\n")
    assert (tmp_path / "a").read_bytes() == "ä\r\nb\u2028c\n".encode()


def test_json_has_an_entry_a_line_and_comes_back(tmp_path):
    value = {"ä": [1, 2.5], "b": None, "c": {"d": {}}, "rows": [{"e": 1}, {"e": "ä"}]}
    write_json(tmp_path / "a.json", value)
    assert (tmp_path / "a.json").read_text(encoding="utf-8").splitlines() == [
        "{",
        ' "ä": [1,2.5],',
        ' "b": null,',
        ' "c": {',
        '  "d": {}',
        " },",
        ' "rows": [',
        '  {"e":1},',
        '  {"e":"ä"}',
        " ]",
        "}",
    ]
    assert read_json(tmp_path / "a.json") == value
    for damaged in ("{", '{"a": NaN}', "[" * 100000):
        (tmp_path / "a.json").write_text(damaged)
        with pytest.raises(Failure, match=r"a\.json is not JSON, or damaged: make it again"):
            read_json(tmp_path / "a.json")


def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    path.write_text("before")
    with pytest.raises(KeyboardInterrupt), replacing(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    path = tmp_path / "a"
    with replacing(path) as one, replacing(path) as other:
        one.write(b"one")
        other.write(b"longer")
    assert path.read_bytes() == b"one" and list(tmp_path.iterdir()) == [path]


def test_others_may_read_it_if_the_umask_lets_them(tmp_path):
    before = os.umask(0o022)
    try:
        write_text(tmp_path / "a", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644


def test_a_full_disk_is_named_with_the_file_and_leaves_nothing(tmp_path):
    with full_disk(tmp_path / "full", 4096) as disk:
        with pytest.raises(OSError, match="No space left on device") as error:
            write_text(disk / "a", "x" * 99999)
        assert error.value.filename == str(disk / "a") and [path.name for path in disk.iterdir()] == ["fill"]


def test_what_is_done_in_a_read_only_folder_needs_no_lock_and_no_writing(tmp_path):
    write_text(tmp_path / "a", "x")
    with read_only(tmp_path), locked(tmp_path) as lock:
        assert lock is None
        write_text(tmp_path / "a", "x")  # it holds that
        with pytest.raises(OSError) as error:
            write_text(tmp_path / "a", "y")
        assert str(error.value.filename) == str(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "x" and len(list(tmp_path.iterdir())) == 1


def test_a_lock_names_the_process_that_a_killed_command_left_behind(tmp_path):
    sleep = f"subprocess.Popen([{sys.executable!r}, '-c', 'import time; time.sleep(60)'], pass_fds=[lock]).pid"
    hold = f"with locked(Path({str(tmp_path)!r})) as lock: print({sleep}, flush=True); time.sleep(60)"
    program = f"import subprocess, time; from pathlib import Path; from pipeline.lock import locked\n{hold}"
    environ = {**os.environ, "PYTHONPATH": str(SCRIPTS), "SCRIPT": "a.sh"}
    with subprocess.Popen([sys.executable, "-c", program], env=environ, stdout=subprocess.PIPE) as command:
        left = int(command.stdout.readline())
        try:
            with pytest.raises(Failure, match=rf"works in {tmp_path} \(a.sh, process {command.pid}\): wait"):
                locked(tmp_path, wait=0).__enter__()
            command.kill()
            command.wait()
            with pytest.raises(Failure, match=rf"\(process {left}, left by a.sh, process {command.pid}\): wait"):
                locked(tmp_path, wait=0).__enter__()
        finally:
            os.kill(left, signal.SIGKILL)


def test_a_step_that_fails_undoes_what_was_done_before_only_if_it_touched_an_output(tmp_path):
    def step(setting, work):
        steps = Steps(tmp_path)
        steps.setting(setting)
        steps.step("make", ["a", "b"], work)

    def make():
        write_text(tmp_path / "a", "x")
        write_text(tmp_path / "b", "x")

    def fail(*changes):
        for name in changes:
            write_text(tmp_path / name, "y")
        raise Failure("no")

    def done(setting):
        steps = Steps(tmp_path)
        steps.setting(setting)
        return steps.is_done("make", "a", "b")

    step("one", make)
    for changes, stays in ((["else"], True), (["b"], False)):
        with pytest.raises(Failure):
            step("two", partial(fail, *changes))
        assert done("one") == stays and not done("two")
    assert [path.name for path in (tmp_path / ".stamps").iterdir()] == []

    step("one", make)
    stamp_path(tmp_path, "make").rename(tmp_path / ".stamps/make.old")  # a kill -9 of a step that had begun leaves this
    with pytest.raises(Failure):
        step("two", fail)
    assert not done("one") and not done("two")
