"""Reads fairseq-train's JSON log of a run, across interruptions.

A continued run repeats the updates behind its last checkpoint, and its lines replace those of the lost work.
"""

import math
import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Sequence

from ..command import Failure
from ..progress import log_line

PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+)")
DEVICE = re.compile(r"rank\s+(\d+): capabilities = .*; name = (.*\S)")


@dataclass(frozen=True)
class Point:
    """One line of the log."""

    updates: int
    nll: float  # base 2, per token or, in fine-tuning, per example
    tokens: float = 0.0  # target tokens of the updates since the point before; of an epoch's end, those of one update
    rate: float = 0.0  # and those of a second, without validation


@dataclass
class TrainLog:
    """A whole training; the points are in the order of updates."""

    parameters: int = 0
    devices: List[str] = field(default_factory=list)  # names of the GPUs; none on a CPU
    train: List[Point] = field(default_factory=list)
    valid: List[Point] = field(default_factory=list)
    epochs: List[Point] = field(default_factory=list)  # the ends of epochs

    @property
    def updates(self) -> int:
        return max((point.updates for point in self.train + self.epochs), default=0)

    @property
    def rate(self) -> float:
        """Target tokens per second: the median over the points, in which pauses do not count; 0 if it is not known."""
        return statistics.median([point.rate for point in self.train if point.rate] or [0.0])

    @property
    def tokens(self) -> int:
        """Target tokens of all updates, with ``</s>``; updates behind the last point count with the epoch's mean."""
        if not self.updates:
            return 0
        counted = sum(point.tokens for point in self.train)
        rest = self.updates - (self.train[-1].updates if self.train else 0)
        mean = self.epochs[-1].tokens if self.epochs else counted / self.train[-1].updates
        return round(counted + rest * mean)


def read_log(path: Path, may_be_empty: bool = False, loss: str = "nll_loss") -> TrainLog:
    """Reads the log of a training.

    Args:
        loss: fairseq's name of the loss of a point; ``loss`` where a log lacks it.
    """
    log = TrainLog()
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if sizes := PARAMETERS.search(line):
                log.parameters = int(sizes[1].replace(",", ""))
            elif device := DEVICE.search(line):
                log.devices = [device[2]] if int(device[1]) == 0 else [*log.devices, device[2]]
            else:
                kind, values = log_line(line)
                if values:
                    _add(log, kind, values, loss)
    if not log.updates and not may_be_empty:
        raise Failure(f"{path} has no line of training: run scripts/train.sh again")
    return log


def _add(log: TrainLog, kind: str, values: Dict[str, Any], loss: str) -> None:
    prefix = "" if kind == "train_inner" else f"{kind}_"
    updates = int(values[f"{prefix}num_updates"])
    nll = float(values.get(f"{prefix}{loss}", values.get(f"{prefix}loss", "nan")))  # both are in bits
    tokens, rate = float(values.get(f"{prefix}wpb", 0)), 0.0
    own = {"train_inner": log.train, "train": log.epochs, "valid": log.valid}[kind]
    for points in (log.train, log.valid, log.epochs):  # what was lost
        points[:] = [point for point in points if point.updates < updates + (points is not own)]
    if kind == "train_inner":
        tokens *= updates - (own[-1].updates if own else 0)
        rate = float(values.get("wps", 0))
    own.append(Point(updates, nll, tokens, rate))


def thinned(points: Sequence[Point], most: int) -> List[Point]:
    """At most ``most`` points, without those that lack a loss; each is the mean of neighbours, at the last of them."""
    points = [point for point in points if math.isfinite(point.nll)]
    size = max(1, -(-len(points) // most))
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [Point(group[-1].updates, statistics.fmean(point.nll for point in group)) for group in groups]
