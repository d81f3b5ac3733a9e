"""The pretrained model of a fine-tuning, as ``scripts/train.sh`` and ``scripts/average.sh`` leave it."""

from functools import cached_property
from pathlib import Path
from typing import Any, Dict, List

from ..command import Failure
from ..files import read_shaped, sha256
from ..prepared import NAME, read_prepared
from ..scoring.blocks import read_blocks
from ..scoring.options import averaged, tell_of_training
from ..settings import SETTINGS, is_unfinished
from ..shape import DIGITS, SEED, TEXT
from ..steps import read_stamp
from ..training.checkpoints import newest_updates, updates_in

RECORD = {"arch": TEXT, "task": TEXT, "seed": SEED, "flags": TEXT, "max_update?": DIGITS}
"""Entries of ``run.json`` that are read."""


class Pretrained:
    """A masked language model in the folder of its training.

    Args:
        run: output of train.sh and average.sh.

    Raises:
        Failure: the folder holds no averaged model, or one of another kind.
    """

    def __init__(self, run: Path) -> None:
        self.run, self.checkpoint = run, averaged(run)
        remedy = "give the output of scripts/train.sh and scripts/average.sh"
        if not read_prepared(run, remedy).is_text:
            raise Failure(f"{run} was not trained by scripts/train.sh on text: {remedy}")
        record = read_shaped(run / "run.json", RECORD, remedy)
        if record["task"] != "masked_lm":
            raise Failure(f"{run} was trained for {record['task']}, and masked_lm is needed: {remedy}")
        self.arch: str = record["arch"]
        self.seed = int(record["seed"])
        self.flags: List[str] = record["flags"].split()
        self.max_update = int(record.get("max_update") or 0)
        tell_of_training(run)

    @cached_property
    def longest(self) -> int:
        """Tokens that the model takes."""
        return read_blocks(self.checkpoint).tokens

    @property
    def settings(self) -> str:
        """The settings of the training; empty if its folder does not say."""
        path = self.run / SETTINGS
        return path.read_text(encoding="utf-8") if path.is_file() else ""

    def files(self) -> List[str]:
        """A line for each file on which a fine-tuning depends, with its hash."""
        return [f"{name} {sha256(self.run / name)}" for name in (self.checkpoint.name, NAME, "dict.txt")]

    def check(self, settings: str) -> None:
        """Raises Failure if a file is not the one that the settings of a fine-tuning name."""
        if not set(self.files()) <= set(settings.splitlines()):
            raise Failure(f"{self.run}: its model has changed meanwhile: call again to fine-tune the new one")

    def entry(self) -> Dict[str, Any]:
        """What a result file says of the model.

        The hash of the checkpoint, its updates, how many the training was to have, and how many checkpoints it
        averages, as far as they are known. Seeds may reach other updates (``--patience``), so ``so_far`` says if the
        training had not ended, or has a later checkpoint.
        """
        digest, updates, stamp = sha256(self.checkpoint), updates_in(self.checkpoint), read_stamp(self.run, "average")
        so_far = is_unfinished(self.run) or newest_updates(self.run / "checkpoints") > updates
        count = stamp.get("averaged") if stamp.get("sha256") == digest else None
        return {
            "checkpoint": digest,
            "updates": updates,
            **({"max_update": self.max_update} if self.max_update else {}),
            **({"averaged": count} if isinstance(count, int) else {}),
            **({"so_far": "yes"} if so_far else {}),
        }
