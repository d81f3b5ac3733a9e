"""One progress bar for each long step, on stderr: a live bar in a terminal, otherwise a line now and then."""

import json
import re
import sys
import time
from typing import Any, Dict, Iterable, Iterator, Optional, Tuple

from tqdm import tqdm

SECONDS_BETWEEN_LINES = 60.0
STATISTICS = re.compile(r"\| (train_inner|train|valid) \| (\{.*\})\s*$")


class Progress:
    """A bar that also works without a terminal.

    Args:
        label: what the step does.
        total: how many units it has; None if this is not known.
        unit: ``lines``, ``updates`` or ``sentences``.
    """

    def __init__(self, label: str, total: Optional[int], unit: str) -> None:
        self.label, self.unit, self.terminal = label, unit, sys.stderr.isatty()
        self.last_line = time.monotonic()
        self.bar = tqdm(
            total=total,
            desc=label,
            unit=f" {unit}",
            disable=None if self.terminal else True,
            dynamic_ncols=True,
        )
        self.total, self.done = total, 0

    def to(self, done: int, note: str = "") -> None:
        """Reports that ``done`` units are finished, followed by ``note``."""
        self.bar.update(done - self.done)
        self.done = done
        if note:
            self.bar.set_postfix_str(note)
        if not self.terminal and time.monotonic() - self.last_line > SECONDS_BETWEEN_LINES:
            self.last_line = time.monotonic()
            share = f" of {self.total}" if self.total else ""
            print(f"{self.label}: {done}{share} {self.unit} {note}".rstrip(), file=sys.stderr, flush=True)

    def close(self) -> None:
        self.bar.close()


def train(lines: Iterable[str], total: int, label: str = "train") -> None:
    """Follows fairseq-train's JSON log: updates, loss, speed and the validation loss."""
    progress = Progress(label, total, "updates")
    notes: Dict[str, str] = {}
    for line in lines:
        _, stats = log_line(line)
        for key, name in (("loss", "loss"), ("train_wps", "wps"), ("wps", "wps"), ("valid_loss", "valid loss")):
            if key in stats:
                notes[name] = str(stats[key])
        updates = stats.get("num_updates", stats.get("train_num_updates"))
        if updates is not None:
            progress.to(int(updates), " ".join(f"{name} {value}" for name, value in notes.items()))
    progress.close()


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
