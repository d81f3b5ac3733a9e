"""Files are written whole or not at all, and two writers of one file do not disturb each other."""

import hashlib
import os

import pytest

from pipeline.command import Failure
from pipeline.files import BLOCK, read_json, replacing, sha256, write_json, write_text
from pipeline.lock import locked
from pipeline.steps import Steps

from ..disks import full_disk, read_only


def test_the_hash_is_that_of_the_whole_file(tmp_path):
    for size in (0, 1, BLOCK, BLOCK + 1):
        content = os.urandom(size)
        (tmp_path / "a").write_bytes(content)
        assert sha256(tmp_path / "a") == hashlib.sha256(content).hexdigest()


def test_text_and_json_come_back_as_they_were_and_a_damaged_file_is_told(tmp_path):
    write_text(tmp_path / "a", "ä\r\nb\u2028c\n")
    assert (tmp_path / "a").read_bytes() == "ä\r\nb\u2028c\n".encode()
    value = {"ä": [1, 2.5], "b": None, "c": {"d": {}}, "rows": [{"e": 1}, {"e": "ä"}]}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value
    for damaged in ("{", '{"a": NaN}'):
        (tmp_path / "a.json").write_text(damaged)
        with pytest.raises(Failure, match=r"a\.json: "):
            read_json(tmp_path / "a.json")


def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    path.write_text("before")
    with pytest.raises(KeyboardInterrupt), replacing(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]
    with replacing(path) as one, replacing(path) as other:  # two writers do not meet
        one.write(b"one")
        other.write(b"longer")
    assert path.read_bytes() == b"one" and list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_named_with_the_file_and_leaves_nothing(tmp_path):
    with full_disk(tmp_path / "full", 4096) as disk:
        with pytest.raises(OSError, match="No space left on device") as error:
            write_text(disk / "a", "x" * 99999)
        assert error.value.filename == str(disk / "a") and [path.name for path in disk.iterdir()] == ["fill"]


def test_what_is_done_in_a_read_only_folder_needs_no_lock_and_no_writing(tmp_path):
    write_text(tmp_path / "a", "x")
    with read_only(tmp_path), locked(tmp_path):
        write_text(tmp_path / "a", "x")  # it holds that
        with pytest.raises(OSError) as error:
            write_text(tmp_path / "a", "y")
        assert str(error.value.filename) == str(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "x" and len(list(tmp_path.iterdir())) == 1


def test_a_step_is_done_with_its_settings_and_those_before_it_while_its_outputs_are_there(tmp_path):
    def step(setting, work=lambda: write_text(tmp_path / "a", "x")):
        steps, begun = Steps(tmp_path), []
        steps.setting(setting)
        steps.step("make", ["a"], lambda: begun.append(work()))
        return bool(begun)

    def fail():
        raise Failure("no")

    assert step("one") and not step("one") and step("two") and not step("two")
    (tmp_path / "a").unlink()
    assert step("two")
    with pytest.raises(Failure):
        step("three", fail)
    assert not list((tmp_path).glob(".stamps/*")) and step("three")
