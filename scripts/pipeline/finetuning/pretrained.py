"""The pretrained model of a fine-tuning, as ``scripts/train.sh`` and ``scripts/average.sh`` leave it."""

from functools import cached_property
from pathlib import Path
from typing import Any, Dict, List

from ..command import Failure, Parser
from ..files import sha256
from ..prepared import NAME, read_prepared
from ..provenance import read_record
from ..scoring.blocks import read_blocks
from ..scoring.options import averaged, tell_of_training
from ..settings import SETTINGS, Flags, flags_in, is_unfinished, normalised
from ..steps import read_stamp
from ..training.checkpoints import newest_updates, updates_in


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
        record = read_record(run, remedy)
        if record.task != "masked_lm":
            raise Failure(f"{run} was trained for {record.task}, and masked_lm is needed: {remedy}")
        self.arch, self.seed, self.flags = record.arch, record.seed, record.flags.split()
        self.max_update = record.max_update
        tell_of_training(run)

    @cached_property
    def longest(self) -> int:
        """Tokens that the model takes."""
        return read_blocks(self.checkpoint).tokens

    @property
    def model_flags(self) -> Flags:
        """Those flags of its training that are about the model."""
        from fairseq.models import ARCH_MODEL_REGISTRY

        import fairseq_rope  # noqa: F401  (registers the architectures)

        parser = Parser(None, add_help=False)
        ARCH_MODEL_REGISTRY[self.arch].add_args(parser)
        known = {option for action in parser._actions for option in action.option_strings}
        return {name: words for name, words in flags_in(self.flags).items() if name in known}

    @property
    def settings(self) -> str:
        """The settings of the training; empty if its folder does not say."""
        path = self.run / SETTINGS
        return normalised(path.read_text(encoding="utf-8")) if path.is_file() else ""

    def files(self) -> List[str]:
        """A line for each file on which a fine-tuning depends, with its hash."""
        return [f"{name} {sha256(self.run / name)}" for name in (self.checkpoint.name, NAME, "dict.txt")]

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
