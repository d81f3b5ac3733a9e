"""A long command whose output goes to a log, such as an installation."""

import pytest

from pipeline import alive

SLOW = "echo Collecting torch; printf 'Building wheel\\n\\n'; sleep 0.3; exit $1"


@pytest.mark.parametrize("status", [0, 3])
def test_a_line_now_and_then_shows_what_it_does_and_the_status_says_whether_it_failed(
    tmp_path, monkeypatch, capsys, status
):
    monkeypatch.setenv("SCRIPT", "install.sh")
    monkeypatch.setattr(alive, "SECONDS_BETWEEN_LINES", 0.2)
    with pytest.raises(SystemExit) as ended:
        alive.main([str(tmp_path / "log"), "sh", "-c", SLOW, "sh", str(status)])
    assert (ended.value.code == 0) == (status == 0)
    assert capsys.readouterr().err == "[install] 0:00 Building wheel\n"
    assert (tmp_path / "log").read_text() == "Collecting torch\nBuilding wheel\n\n"


def test_the_line_names_minutes_and_nothing_that_moves_the_cursor(tmp_path, monkeypatch):
    monkeypatch.setenv("SCRIPT", "install.sh")
    (tmp_path / "log").write_bytes(b"x" * 5000 + b"\n  50%\r\x1b[2K 60% \xff\n \n")
    assert alive.line(tmp_path / "log", 161) == "[install] 2:41 50%[2K 60% \ufffd"
    (tmp_path / "log").write_bytes(b"")
    assert alive.line(tmp_path / "log", 5) == "[install] 0:05 "
