"""The line of a log that says why."""

import pytest

from pipeline.processes import last_error_in

from ..disks import full_disk


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("Traceback\nValueError: first\nKeyError: 'last'\n2026 | INFO | bye", "KeyError: 'last'"),
        ("[rank1]: torch.OutOfMemoryError: CUDA\nx.ChildFailedError: \n", "torch.OutOfMemoryError: CUDA"),
        ("fairseq-generate: error: unrecognized", "fairseq-generate: error: unrecognized"),
        ("/bin/python: No module named 'x'", "/bin/python: No module named 'x'"),
        ("the Error was small", "no reason given"),
        ("ValueError: early\n" + "later\n" * 400, "no reason given"),
        ("ValueError: " + "x" * 1000, "ValueError: " + "x" * 288),
    ],
)
def test_the_last_line_that_looks_like_an_error_is_the_reason(tmp_path, log, reason):
    (tmp_path / "log").write_text(log)
    assert last_error_in(tmp_path / "log") == reason


def test_where_the_log_had_no_room_the_full_disk_is_the_reason(tmp_path):
    with full_disk(tmp_path / "full", 0) as disk:
        assert last_error_in(disk / "log") == f"no room is left in {disk}: make room"
