"""Lines of a log of fairseq-train, and a log with a kill and a resume in it."""

import json
from datetime import datetime, timedelta

BEGAN = datetime(2026, 1, 1, 23, 59, 30)


def stamp(seconds=0):
    """How a line begins that is written so long after the start of its process."""
    return f"{BEGAN + timedelta(seconds=seconds)} | INFO | "


def inner(updates, wpb, seconds, nll=2.0, **more):
    """fairseq's ``wall`` stays 0 in a process that continued within an epoch."""
    values = dict(epoch=1, nll_loss=str(nll), wpb=str(wpb), num_updates=str(updates), train_wall="1", wall="0")
    values.update(more)
    return f"{stamp(seconds)}train_inner | {json.dumps(values)}"


def valid(updates, seconds, nll):
    return f'{stamp(seconds)}valid | {{"epoch": 1, "valid_nll_loss": "{nll}", "valid_num_updates": "{updates}"}}'


def epoch(updates, wpb, seconds):
    values = {"epoch": 1, "train_nll_loss": "2", "train_wpb": str(wpb), "train_num_updates": str(updates)}
    return f"{stamp(seconds)}train | {json.dumps({**values, 'train_train_wall': '3', 'train_wall': '0'})}"


def start(updates=None):
    lines = [f"{stamp()}fairseq_cli.train | num. shared model params: 1,234 (num. trained: 1,200)"]
    loaded = f"{stamp(1)}fairseq.trainer | Loaded checkpoint x/checkpoint_last.pt (epoch 1 @ {updates} updates)"
    return lines if updates is None else [*lines, loaded]


KILLED = [*start(), inner(10, 100, 20), inner(20, 110, 40), valid(20, 42, 3), inner(30, 999, 60), valid(30, 63, 9)]
"""The checkpoint is that of 20 updates; the kill lost 10 to 15 updates and cut a line."""

RESUMED = [*start(20), inner(30, 120, 25), valid(30, 29, 2), inner(40, 130, 50), epoch(42, 140, 55)]
