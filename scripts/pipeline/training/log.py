"""Reads fairseq-train's JSON log of a run, across interruptions.

A continued run repeats the updates behind its last checkpoint. The lost work does not count: neither its updates nor
its tokens nor its time. Times are those at which lines were written: fairseq's own ``wall`` begins anew in each
process, and stays 0 in one that continued within an epoch.
"""

import math
import re
import statistics
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from ..command import Failure
from ..progress import LOADED, log_line

PARAMETERS = re.compile(r"num\. shared model params: ([\d,]+) \(num\. trained: ([\d,]+)\)")
TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) \| ")
DEVICE = re.compile(r"rank\s+(\d+): capabilities = .*; name = (.*\S)")


@dataclass(frozen=True)
class Point:
    """One line of the log."""

    updates: int
    seconds: float  # since the training began, without what was lost
    nll: float  # base 2, per token or, in fine-tuning, per example
    tokens: float = 0.0  # target tokens of the updates since the point before
    rate: float = 0.0  # and those of a second, without validation


@dataclass
class TrainLog:
    """A whole training; the points are in the order of updates."""

    parameters: int = 0
    trained: int = 0  # parameters that learn
    devices: List[str] = field(default_factory=list)  # names of the GPUs; none on a CPU
    processes: int = 0
    train: List[Point] = field(default_factory=list)
    valid: List[Point] = field(default_factory=list)
    epochs: List[Point] = field(default_factory=list)  # ends of epochs; tokens: of one update, the epoch's mean

    @property
    def updates(self) -> int:
        return max((point.updates for point in self.train + self.epochs), default=0)

    @property
    def seconds(self) -> float:
        """Wall time, including validation and the writing of checkpoints."""
        return max((point.seconds for point in self.train + self.valid + self.epochs), default=0.0)

    @property
    def rate(self) -> float:
        """Target tokens per second: the median over the points, in which pauses, validation and reading data at the
        start do not count."""
        rates = [point.rate for point in self.train if point.rate]
        return statistics.median(rates) if rates else (self.tokens / self.seconds if self.seconds else 0.0)

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

    Raises:
        Failure: the log has no line of training, and may not be empty.
    """
    log = TrainLog()
    started, offset = 0, 0.0  # updates at which this process began, and the seconds before it
    began: Optional[datetime] = None
    now = datetime.min
    waiting = False
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            now = _time(line, now)
            sizes = PARAMETERS.search(line)
            if sizes:
                log.parameters, log.trained = (int(number.replace(",", "")) for number in sizes.groups())
                log.processes += 1
                began, started, waiting = now, 0, True
            elif loaded := LOADED.search(line):
                started = int(loaded[1])
            elif DEVICE.search(line):
                rank, name = DEVICE.findall(line)[0]
                log.devices = [name] if int(rank) == 0 else [*log.devices, name]
            else:
                kind, values = log_line(line)
                if not values:
                    continue
                if waiting:
                    offset, waiting = _forget_behind(log, started), False
                began = began or now  # the log lacks its beginning
                _add(log, offset + (now - began).total_seconds(), kind, values, loss)
    if not log.updates and not may_be_empty:
        raise Failure(f"{path} has no line of training: run scripts/train.sh again")
    return log


def _forget_behind(log: TrainLog, updates: int) -> float:
    """Drops the points behind a checkpoint from which training continued; returns the seconds at that checkpoint."""
    log.train = [point for point in log.train if point.updates <= updates]
    log.valid = [point for point in log.valid if point.updates <= updates]
    log.epochs = [point for point in log.epochs if point.updates <= updates]
    return log.seconds


def _time(line: str, before: datetime) -> datetime:
    """When a line was written; one that does not say so is as old as the line before. A kill can join two lines."""
    try:
        return datetime.fromisoformat(TIME.findall(line)[-1])
    except (IndexError, ValueError):
        return before


def _add(log: TrainLog, seconds: float, kind: str, values: Dict[str, Any], loss: str) -> None:
    prefix = "" if kind == "train_inner" else f"{kind}_"
    updates = int(values[f"{prefix}num_updates"])
    nll = float(values.get(f"{prefix}{loss}", values.get(f"{prefix}loss", "nan")))  # both are in bits
    tokens = float(values.get(f"{prefix}wpb", 0))
    if kind == "valid":
        log.valid = [point for point in log.valid if point.updates != updates]
        log.valid.append(Point(updates, seconds, nll))
    elif kind == "train":
        log.epochs.append(Point(updates, seconds, nll, tokens))
    else:
        before = log.train[-1].updates if log.train else 0
        log.train.append(Point(updates, seconds, nll, tokens * (updates - before), float(values.get("wps", 0))))


def thinned(points: Sequence[Point], most: int) -> List[Point]:
    """At most ``most`` points, without those that lack a loss; each is the mean of neighbours, at the last of them."""
    points = [point for point in points if math.isfinite(point.nll)]
    size = max(1, -(-len(points) // most))
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [
        Point(group[-1].updates, group[-1].seconds, sum(point.nll for point in group) / len(group)) for group in groups
    ]
