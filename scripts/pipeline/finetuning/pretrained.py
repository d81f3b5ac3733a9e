"""The pretrained model of a fine-tuning, as ``scripts/train.sh`` and ``scripts/average.sh`` leave it."""

from functools import cached_property
from pathlib import Path
from typing import Any, Dict, List

from ..command import Failure, Parser
from ..files import sha256
from ..prepared import NAME
from ..provenance import read_record
from ..scoring.evaluate import read_blocks
from ..settings import Flags, averaged, flags_in, read_settings
from ..steps import read_stamp
from ..training.checkpoints import updates_in


class Pretrained:
    """A masked language model in the folder of its training.

    Args:
        run: output of train.sh and average.sh.
    """

    def __init__(self, run: Path) -> None:
        self.run, self.checkpoint = run, averaged(run)
        remedy = "give the output of scripts/train.sh and scripts/average.sh for a masked language model"
        record = read_record(run, remedy)
        if record.task != "masked_lm":
            raise Failure(f"{run} was trained for {record.task}: {remedy}")
        self.record, self.arch, self.seed, self.start = record, record.arch, record.seed, record.start
        self.settings = read_settings(run)
        """of the training; empty if its folder does not say"""

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
        known = {option for action in parser._actions for option in action.option_strings} - {"--only-train"}
        return {name: words for name, words in flags_in(self.record.flags.split()).items() if name in known}

    def files(self) -> List[str]:
        """A line for each file on which a fine-tuning depends, with its hash."""
        return [f"{name} {sha256(self.run / name)}" for name in (self.checkpoint.name, NAME, "dict.txt")]

    def entry(self) -> Dict[str, Any]:
        """What a result file says of the model: its hash and updates; how many the training was to have, as seeds may
        reach others (``--patience``); how many checkpoints it averages."""
        entry = {"checkpoint": sha256(self.checkpoint), "updates": updates_in(self.checkpoint)}
        more = {"max_update": self.record.max_update, "averaged": read_stamp(self.run, "average").get("averaged")}
        return {**entry, **{key: value for key, value in more.items() if value}}
