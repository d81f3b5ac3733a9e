"""Lines of a log of fairseq-train, and a log with a kill and a resume in it."""

import json

STAMP = "2026-01-01 23:59:30 | INFO | "


def inner(updates, wpb, nll=2.0, **more):
    values = dict(epoch=1, nll_loss=str(nll), wpb=str(wpb), num_updates=str(updates), **more)
    return f"{STAMP}train_inner | {json.dumps(values)}"


def valid(updates, nll):
    return f'{STAMP}valid | {{"epoch": 1, "valid_nll_loss": "{nll}", "valid_num_updates": "{updates}"}}'


def epoch(updates, wpb):
    values = {"epoch": 1, "train_nll_loss": "2", "train_wpb": str(wpb), "train_num_updates": str(updates)}
    return f"{STAMP}train | {json.dumps(values)}"


def start():
    return [f"{STAMP}fairseq_cli.train | num. shared model params: 1,234 (num. trained: 1,200)"]


KILLED = [*start(), inner(10, 100), inner(20, 110), valid(20, 3), inner(30, 999), valid(30, 9)]
"""The checkpoint is that of 20 updates; the kill lost 10 to 15 updates and cut a line."""

RESUMED = [*start(), inner(30, 120), valid(30, 2), inner(40, 130), epoch(42, 140)]
