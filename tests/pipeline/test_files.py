"""Files are written whole or not at all, and two writers of one file do not disturb each other."""

import hashlib
import os
import stat

import pytest

from pipeline.command import Failure
from pipeline.files import BLOCK, read_json, replacing, sha256, write_json, write_text


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
