"""One progress bar for each long step, on stderr: a live bar in a terminal, otherwise a line now and then."""

import json
import re
import sys
import time
from typing import Any, Dict, Iterable, Iterator, Optional, Sequence, Tuple

from tqdm import tqdm

SECONDS_BETWEEN_LINES = 60.0
STATISTICS = re.compile(r"\| (train_inner|train|valid) \| (\{.*\})\s*$")
LOADED = re.compile(r"Loaded checkpoint .* @ (\d+) updates\)")

COUNT, COUNT_ALONE = " {n_fmt}/{total_fmt} [{elapsed}<{remaining}", " {n_fmt}{unit} [{elapsed}"
"""What follows the bar, with a known total and without."""

NOTES = {"loss {:g}": ("loss",), "valid loss {:g}": ("valid_loss",), "{:,.0f} words/s": ("train_wps", "wps")}
"""Notes on a training, the most important one first, to the numbers of fairseq-train's log that they show."""


class Bar(tqdm):
    """tqdm's bar, which leaves out what does not fit into the terminal so that the bar itself keeps 10 columns.

    It leaves out the rate, then the last notes, then all but the first word of the label, then the times and the bar.
    """

    notes: Sequence[str] = ()

    def __str__(self) -> str:
        shown = self.format_dict
        for form in self._forms():
            line = str(self.format_meter(**{**shown, "ncols": None, "bar_format": form}))
            if not shown["ncols"] or len(line) <= shown["ncols"]:
                break
        return str(self.format_meter(**{**shown, "bar_format": form}))

    def _forms(self) -> Iterator[str]:
        """tqdm's ``bar_format``, from the longest to the shortest."""
        head, tail = (": {percentage:3.0f}%|{bar}|", COUNT) if self.total else (":", COUNT_ALONE)
        short = self.desc.split(" ")[0].replace("{", "{{").replace("}", "}}")
        for label in ("{desc}", short):
            yield label + head + tail + "".join(f", {note}" for note in ("{rate_fmt}", *self.notes)) + "]"
            for count in range(len(self.notes), min(1, len(self.notes)) - 1, -1):
                yield label + head + tail + "".join(f", {note}" for note in self.notes[:count]) + "]"
        narrow = short + head.split("|")[0] + tail.split(" [")[0]
        yield narrow + "".join(f", {note}" for note in self.notes[:1])
        yield narrow


class Progress:
    """A bar that also works without a terminal.

    Args:
        label: what the step does.
        total: how many units it has; None if this is not known.
        unit: ``lines``, ``updates`` or ``sentences``.
    """

    def __init__(self, label: str, total: Optional[int], unit: str) -> None:
        self.label, self.total, self.unit, self.terminal = label, total, unit, sys.stderr.isatty()
        self.last_line, self.done, self.bar = time.monotonic(), 0, self._bar(0)

    def _bar(self, done: int) -> Bar:
        hidden, unit = None if self.terminal else True, f" {self.unit}"
        options = dict(disable=hidden, dynamic_ncols=True, leave=False)
        return Bar(total=self.total, initial=done, desc=self.label, unit=unit, **options)

    def begin(self, done: int) -> None:
        """Starts the bar anew with ``done`` units of an earlier call, which have no part in the rate."""
        self.bar.close()
        self.done, self.bar = done, self._bar(done)

    def to(self, done: int, *notes: str) -> None:
        """Reports that ``done`` units are finished, followed by notes, the most important one first."""
        self.bar.notes = notes
        self.bar.update(done - self.done)
        self.done = done
        if notes:
            self.bar.refresh()
        if not self.terminal and time.monotonic() - self.last_line > SECONDS_BETWEEN_LINES:
            self.last_line = time.monotonic()
            share = f" of {self.total}" if self.total else ""
            print(", ".join([f"{self.label}: {done}{share} {self.unit}", *notes]), file=sys.stderr, flush=True)

    def close(self, keep: bool = False) -> None:
        """Ends the bar, which vanishes unless ``keep``."""
        self.bar.leave = keep
        self.bar.close()


def train(lines: Iterable[str], total: int, label: str = "train") -> None:
    """Follows fairseq-train's JSON log: updates, loss, the validation loss and speed."""
    progress = Progress(label, total, "updates")
    notes: Dict[str, str] = {}
    try:
        for line in lines:
            if loaded := LOADED.search(line):
                progress.begin(int(loaded[1]))
            _, stats = log_line(line)
            for note, keys in NOTES.items():
                for key in keys:
                    if stats.get(key) is not None:
                        notes[note] = note.format(float(stats[key]))
            updates = stats.get("num_updates", stats.get("train_num_updates"))
            if updates is not None:
                progress.to(int(updates), *(notes[note] for note in NOTES if note in notes))
    finally:  # also after a signal: the bar ends its line
        progress.close(keep=True)


def log_line(line: str) -> Tuple[str, Dict[str, Any]]:
    """``train_inner``, ``train`` or ``valid``, and the numbers of such a line of fairseq-train's JSON log.

    Both are empty for other lines, and for a line that a kill cut off.
    """
    match = STATISTICS.search(line)
    try:
        return (match[1], json.loads(match[2])) if match else ("", {})
    except ValueError:
        return "", {}


def generate(lines: Iterable[bytes], total: int, label: str = "translate") -> Iterator[bytes]:
    """Passes the lines of fairseq-generate on and counts the sentences in them."""
    progress = Progress(label, total, "sentences")
    done = 0
    try:
        for line in lines:
            yield line
            if line.startswith(b"H-"):
                done += 1
                progress.to(done)
    finally:
        progress.close()
