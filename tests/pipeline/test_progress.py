"""The progress filters: what they pass on and what they read from fairseq's output."""

import pytest

from pipeline import progress


@pytest.fixture
def bars(monkeypatch):
    """The calls of each bar, without a terminal."""
    made = []

    class Recorder(progress.Progress):
        def __init__(self, label, total, unit):
            super().__init__(label, total, unit)
            self.calls = []
            made.append(self)

        def to(self, done, note=""):
            self.calls.append((done, note))
            super().to(done, note)

    monkeypatch.setattr(progress, "Progress", Recorder)
    return made


def test_training_shows_updates_loss_speed_and_validation_loss(bars):
    log = [
        "2026 | INFO | fairseq_cli.train | {'task': 'x'}\n",
        '2026 | INFO | train_inner | {"epoch": 1, "loss": "9.5", "wps": "812", "num_updates": "10"}\n',
        '2026 | INFO | valid | {"epoch": 1, "valid_loss": "8.1", "valid_num_updates": "10"}\n',
        '2026 | INFO | train_inner | {"epoch": 1, "loss": "9.1", "wps": "820", "num_updates": "20"}\n',
        '2026 | INFO | train_inner | {"epoch": broken\n',
    ]
    progress.train(log, total=20)
    assert bars[0].calls == [(10, "loss 9.5 wps 812"), (20, "loss 9.1 wps 820 valid loss 8.1")]


def test_generation_is_passed_on_unchanged_and_counted(bars):
    lines = [b"S-1\ta\n", b"H-1\t-0.1\tb\n", b"H-0\t-0.1\t\xff\n"]
    assert list(progress.generate(lines, total=2)) == lines
    assert [done for done, _ in bars[0].calls] == [1, 2]


def test_a_line_now_and_then_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", -1.0)
    line = '| train_inner | {"epoch": 1, "loss": "2", "num_updates": "5"}'
    progress.train([line], total=10, label="train x")
    assert capsys.readouterr().err == "train x: 5 of 10 updates loss 2\n"
