"""Commands in shards: the same bytes as in one piece, what survives a kill, what is refused."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.command import Failure
from pipeline.corpus.shards import Shard, even_shards, find_shards, map_lines

from ...commands import ENVIRONMENT, ROOT

UPPER = [sys.executable, "-c", "import sys\nfor line in sys.stdin: sys.stdout.write(line.upper())"]
TOOLS = Path(sys.executable).parent


def text(tmp_path, content="ein Hund\nzwei\n\nDrei Katzen\nvier\n"):
    path = tmp_path / "input"
    path.write_text(content, encoding="utf-8")
    return path


def test_shards_are_whole_lines_and_cover_the_file(tmp_path):
    path = text(tmp_path, "a\nbb\n\ncccc")
    assert find_shards(path, 3) == [Shard(0, 6, 3), Shard(6, 10, 1)]
    assert find_shards(path, 99) == [Shard(0, 10, 4)]
    assert find_shards(text(tmp_path, ""), 3) == []


def test_all_workers_get_as_many_shards():
    for total, workers, lines in ((346924, 2, 200000), (4500000, 2, 200000), (5, 3, 2), (1, 4, 10), (900, 1, 100)):
        size = even_shards(total, workers, lines)
        shards = -(-total // size)
        assert size <= lines and (shards % workers == 0 or total < workers * 2)
    assert even_shards(346924, 2, 200000) == 173462


@pytest.mark.parametrize("workers,lines", [(1, 99), (2, 1), (3, 2)])
def test_it_equals_the_command_in_one_piece(tmp_path, workers, lines):
    assert map_lines(UPPER, text(tmp_path), tmp_path / "out", workers, lines, "x") == 5
    assert (tmp_path / "out").read_text() == "EIN HUND\nZWEI\n\nDREI KATZEN\nVIER\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == [".out.key", "input", "out"]


@pytest.mark.parametrize("lang", ["en", "de"])
def test_tokens_are_those_of_the_librarys_own_command_byte_by_byte(tmp_path, lang):
    lines = (ROOT / f"data/demo/train.{lang}").read_text(encoding="utf-8").splitlines()[:700]
    odd = [
        "",
        "  two  spaces ",
        "a&b <c> |d| [e] 'f' \"g\"",
        "z.B. d.h. 3,5 %-Marke",
        "\u201cquotes\u201d \u2013 dash\u2026",
        "tab\there\u200b",
    ]
    source = text(tmp_path, "\n".join([*odd, *lines, *odd]) + "\n")
    command = [TOOLS / "sacremoses", "-q", "-l", lang, "normalize", "tokenize", "-a"]
    plain = subprocess.run(command, stdin=source.open("rb"), capture_output=True, check=True).stdout
    map_lines([str(c) for c in command], source, tmp_path / "out", 2, 250, "x")
    assert (tmp_path / "out").read_bytes() == plain


def test_a_failing_command_is_reported_in_one_line_and_finished_shards_stay(tmp_path):
    fails = [sys.executable, "-c", "import sys\nif 'zwei' in sys.stdin.read(): sys.exit('cannot do that')\nprint()"]
    with pytest.raises(Failure, match="failed with status 1: cannot do that"):
        map_lines(fails, text(tmp_path), tmp_path / "out", 1, 1, "x")
    assert not (tmp_path / "out").exists() and (tmp_path / "out.shards/000000.done").exists()
    with pytest.raises(Failure, match="made 1 lines of 5: it must keep them apart"):
        map_lines(["head", "-n", "1"], text(tmp_path), tmp_path / "out", 1, 99, "x")
    with pytest.raises(OSError, match="no_such_command"):
        map_lines(["no_such_command"], text(tmp_path), tmp_path / "out", 1, 99, "x")


def test_a_killed_run_goes_on_where_it_was_and_a_changed_one_begins_anew(tmp_path):
    slow = [sys.executable, "-c", "import sys, time\nfor line in sys.stdin: time.sleep(0.4); sys.stdout.write(line)"]
    source, out = text(tmp_path), tmp_path / "out"
    call = f"map_lines({slow}, Path({str(source)!r}), Path({str(out)!r}), 1, 1, 'x')"
    program = f"from pathlib import Path; from pipeline.corpus.shards import map_lines; {call}"
    process = subprocess.Popen([sys.executable, "-c", program], env=ENVIRONMENT, start_new_session=True)
    first = tmp_path / "out.shards/000001.done"
    while not first.exists():
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    first.write_text("kept\n")
    map_lines(slow, source, out, 1, 1, "x")
    assert out.read_text() == "ein Hund\nkept\n\nDrei Katzen\nvier\n"
    (tmp_path / "out.shards").mkdir()
    (tmp_path / "out.shards/000001.done").write_text("of something else\n")
    map_lines(UPPER, source, out, 1, 1, "x")
    assert out.read_text().splitlines()[1] == "ZWEI"


def test_a_finished_output_is_made_again_only_if_something_changed(tmp_path):
    source, out, codes = text(tmp_path), tmp_path / "out", tmp_path / "codes"
    codes.write_text("1")

    def run(command):
        map_lines(command, source, out, 1, 2, "x", [codes])
        return out.read_text().splitlines()[0]

    assert run(UPPER) == "EIN HUND"
    out.write_text("touched\n")
    assert run(UPPER) == "touched"
    codes.write_text("2")
    assert run(UPPER) == "EIN HUND"
    assert run(["cat"]) == "ein Hund"
    source.write_text("anders\n")
    assert run(["cat"]) == "anders"
