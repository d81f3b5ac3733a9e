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

        def begin(self, done):
            self.begun = done
            super().begin(done)

        def to(self, done, *notes):
            self.calls.append((done, *notes))
            super().to(done, *notes)

    monkeypatch.setattr(progress, "Progress", Recorder)
    return made


def test_training_shows_updates_loss_speed_and_validation_loss(bars):
    log = [
        "2026 | INFO | fairseq_cli.train | {'task': 'x'}\n",
        '2026 | INFO | train_inner | {"epoch": 1, "loss": "9.5", "wps": "812", "num_updates": "10"}\n',
        '2026 | INFO | valid | {"epoch": 1, "valid_loss": "8.1", "valid_num_updates": "10"}\n',
        '2026 | INFO | train_inner | {"epoch": 1, "loss": "9.1", "wps": "1820.4", "num_updates": "20"}\n',
        '2026 | INFO | train_inner | {"epoch": broken\n',
    ]
    progress.train(log, total=20)
    assert bars[0].calls == [(10, "loss 9.5", "812 words/s"), (20, "loss 9.1", "valid loss 8.1", "1,820 words/s")]


def test_generation_is_passed_on_unchanged_and_counted(bars):
    lines = [b"S-1\ta\n", b"H-1\t-0.1\tb\n", b"H-0\t-0.1\t\xff\n"]
    assert list(progress.generate(lines, total=2)) == lines
    assert [done for done, *_ in bars[0].calls] == [1, 2]


def test_a_line_now_and_then_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", -1.0)
    line = '| train_inner | {"epoch": 1, "loss": "2", "num_updates": "5"}'
    progress.train([line], total=10, label="train x")
    assert capsys.readouterr().err == "train x: 5 of 10 updates, loss 2\n"


NOTES = ("loss 1.749", "valid loss 1.706", "8,047 words/s")
LONG = "train transformer_sinusoidal_multi30k, seed 1"


def shown(monkeypatch, label, columns, total=1000):
    """The bar in a terminal of this width, 70 seconds and 260 updates after it began."""
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    bar = progress.Progress(label, total, "updates").bar
    bar.dynamic_ncols = lambda _: (columns, 24)
    bar.start_t -= 70
    bar.n, bar.notes = 260, NOTES
    return str(bar)


@pytest.mark.parametrize("columns", [60, 80, 110, 200])
@pytest.mark.parametrize("label", ["train roformer_tiny, seed 1", LONG])
def test_the_loss_and_a_bar_of_ten_columns_are_visible_in_any_terminal(monkeypatch, label, columns):
    line = shown(monkeypatch, label, columns)
    assert len(line) <= columns and "loss 1.749" in line and "260/1000 [01:10<" in line
    assert len(line.split("|")[1]) >= 10
    assert line.startswith(label) == (columns > 60 and (label, columns) != (LONG, 80))
    assert ("8,047 words/s" in line) == (columns == 200)


@pytest.mark.parametrize("label", ["train roformer_tiny, seed 1", LONG])
def test_a_narrow_terminal_shows_the_loss_and_no_bar(monkeypatch, label):
    assert shown(monkeypatch, label, 40) == "train:  26% 260/1000, loss 1.749"
    assert shown(monkeypatch, label, 24) == "train:  26% 260/1000"
    assert shown(monkeypatch, label, 36, total=None) == "train: 260 updates, loss 1.749"


def test_a_bar_without_a_total_shows_its_count(monkeypatch):
    assert shown(monkeypatch, "train", 80, total=None).startswith("train: 260 updates [01:10, ")


def test_the_rate_counts_new_updates_only(monkeypatch, bars):
    """After 500 updates of an earlier call, 20 in 10 seconds are 2 a second."""
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    line = '| train_inner | {"epoch": 1, "loss": "2", "num_updates": "%d"}'
    log = ["| Loaded checkpoint run/checkpoint_last.pt (epoch 3 @ 500 updates)", line % 510, line % 520]
    progress.train(log, total=1000)
    (made,) = bars
    assert made.begun == 500 and made.bar.initial == 500 and made.bar.n == 520
    state = {**made.bar.format_dict, "elapsed": 10, "rate": None, "bar_format": "{rate_fmt} {remaining}"}
    assert made.bar.format_meter(**state) == " 2.00 updates/s 04:00"


def test_a_bar_that_is_interrupted_ends_its_line(monkeypatch, capsys):
    def log():
        yield '| train_inner | {"epoch": 1, "loss": "2", "num_updates": "5"}'
        raise KeyboardInterrupt

    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    with pytest.raises(KeyboardInterrupt):
        progress.train(log(), total=10)
    shown = capsys.readouterr().err
    assert shown.endswith("\n") and shown.rstrip().endswith("loss 2]")
