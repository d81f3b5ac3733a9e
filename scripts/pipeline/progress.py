"""Progress bars for long steps on stderr, if that is a terminal, and the lines of fairseq's logs that move them."""

import json
import re
from typing import Any, Dict, Iterable, Iterator, Optional, Tuple

from tqdm import tqdm

STATISTICS = re.compile(r"\| (train_inner|train|valid) \| (\{.*\})\s*$")
LOADED = re.compile(r"Loaded checkpoint .* @ (\d+) updates\)")


class Progress:
    """A bar.

    Args:
        label: what the step does.
        total: how many units it has; None if this is not known.
        unit: ``lines``, ``updates`` or ``sentences``.
    """

    def __init__(self, label: str, total: Optional[int], unit: str) -> None:
        self.done = 0
        self.bar = tqdm(total=total, desc=label, unit=f" {unit}", disable=None, dynamic_ncols=True, leave=False)

    def begin(self, done: int) -> None:
        """Counts ``done`` units of an earlier call, which have no part in the rate."""
        self.done = self.bar.initial = self.bar.n = done

    def to(self, done: int, notes: str = "") -> None:
        """Reports that ``done`` units are finished."""
        if notes:
            self.bar.set_postfix_str(notes, refresh=False)
        self.bar.update(done - self.done)
        self.done = done

    def close(self, keep: bool = False) -> None:
        """Ends the bar, which vanishes unless ``keep``."""
        self.bar.leave = keep
        self.bar.close()


def train(lines: Iterable[str], total: int, label: str = "train") -> None:
    """Follows fairseq-train's JSON log: updates, loss and the validation loss."""
    progress = Progress(label, total, "updates")
    notes: Dict[str, str] = {}
    try:
        for line in lines:
            if loaded := LOADED.search(line):
                progress.begin(int(loaded[1]))
            _, stats = log_line(line)
            notes.update({key.replace("_", " "): stats[key] for key in ("loss", "valid_loss") if key in stats})
            updates = stats.get("num_updates", stats.get("train_num_updates"))
            if updates is not None:
                progress.to(int(updates), ", ".join(f"{name} {loss}" for name, loss in notes.items()))
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
