"""Progress bars for long steps on stderr, if that is a terminal, and the lines of fairseq's logs that move them."""

import json
import re
from typing import Any, Dict, Iterable, Iterator, Tuple

from tqdm import tqdm

STATISTICS = re.compile(r"\| (train_inner|train|valid) \| (\{.*\})\s*$")
LOADED = re.compile(r"Loaded checkpoint .* @ (\d+) updates\)")


def bar(label: str, total: int, unit: str, keep: bool = False) -> "tqdm[Any]":
    """A bar of ``total`` units, such as ``lines``, which vanishes when it is closed unless ``keep``."""
    return tqdm(total=total, desc=label, unit=f" {unit}", disable=None, dynamic_ncols=True, leave=keep)


def train(lines: Iterable[str], total: int, label: str = "train") -> None:
    """Follows fairseq-train's JSON log: updates, loss and the validation loss."""
    notes: Dict[str, str] = {}
    with bar(label, total, "updates", keep=True) as shown:  # also after a signal: the bar ends its line
        for line in lines:
            if loaded := LOADED.search(line):
                shown.initial = shown.n = int(loaded[1])  # of an earlier call: they have no part in the rate
            _, stats = log_line(line)
            notes.update({key.replace("_", " "): stats[key] for key in ("loss", "valid_loss") if key in stats})
            updates = stats.get("num_updates", stats.get("train_num_updates"))
            if updates is not None:
                shown.set_postfix_str(", ".join(f"{name} {loss}" for name, loss in notes.items()), refresh=False)
                shown.update(int(updates) - shown.n)


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
    with bar(label, total, "sentences") as shown:
        for line in lines:
            yield line
            shown.update(line.startswith(b"H-"))
