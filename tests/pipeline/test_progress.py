"""The progress filters: what they pass on and what they read from fairseq's output."""

import pytest

from pipeline import progress

LINE = '| train_inner | {"epoch": 1, "loss": "2", "num_updates": "%d"}'


@pytest.fixture
def terminal(monkeypatch):
    """The bar that was made last, in a terminal."""
    bars = []

    class Recorder(progress.tqdm):
        def __init__(self, **options):
            super().__init__(**{**options, "disable": False})
            bars.append(self)

    monkeypatch.setattr(progress, "tqdm", Recorder)
    return bars


def test_training_shows_updates_loss_and_validation_loss(terminal, capsys):
    log = [
        "2026 | INFO | fairseq_cli.train | {'task': 'x'}\n",
        '2026 | INFO | train_inner | {"epoch": 1, "loss": "9.5", "wps": "812", "num_updates": "10"}\n',
        '2026 | INFO | valid | {"epoch": 1, "valid_loss": "8.1", "valid_num_updates": "10"}\n',
        '2026 | INFO | train_inner | {"epoch": 1, "loss": "9.1", "wps": "1820.4", "num_updates": "20"}\n',
        '2026 | INFO | train_inner | {"epoch": broken\n',
    ]
    progress.train(log, total=20)
    assert terminal[0].n == 20 and "loss 9.1, valid loss 8.1" in capsys.readouterr().err


def test_generation_is_passed_on_unchanged_and_counted(terminal):
    lines = [b"S-1\ta\n", b"H-1\t-0.1\tb\n", b"H-0\t-0.1\t\xff\n"]
    assert list(progress.generate(lines, total=2)) == lines
    assert terminal[0].n == 2


def test_the_rate_counts_new_updates_only(terminal):
    progress.train(["| Loaded checkpoint x.pt (epoch 3 @ 500 updates)", LINE % 510, LINE % 520], total=1000)
    assert (terminal[0].initial, terminal[0].n) == (500, 520)
