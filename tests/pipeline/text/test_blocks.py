"""Blocks of lines on several processors: nothing is lost or changes places."""

import time

import pytest

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
