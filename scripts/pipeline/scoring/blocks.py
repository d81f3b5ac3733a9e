"""The blocks of text that a language model was trained on, and is evaluated on. Reading them imports fairseq."""

from pathlib import Path
from typing import NamedTuple

from ..command import Failure, as_failure


class Blocks(NamedTuple):
    """What the task of a checkpoint says of its blocks."""

    tokens: int
    """of one; the last block of a text may be shorter"""
    bos: bool = False
    """whether ``<s>`` comes before each (``--add-bos-token``): fairseq has it predicted and counted like a token"""

    def counted(self, tokens: int) -> int:
        """The tokens that fairseq counts in a text of that many."""
        return tokens + (-(-tokens // self.tokens) if self.bos else 0)

    def __str__(self) -> str:
        return f"blocks of {self.tokens} tokens"


def read_blocks(checkpoint: Path) -> Blocks:
    """The blocks of a checkpoint's training.

    Raises:
        Failure: the checkpoint cannot be used, or is not of a language model.
    """
    from fairseq_rope.checkpoints.files import load_checkpoint
    from fairseq_rope.checkpoints.model_folder import task_options

    with as_failure():
        state = load_checkpoint(checkpoint)
    task = task_options(state)
    tokens = task.get("tokens_per_sample")
    if type(tokens) is not int or tokens < 1:
        raise Failure(f"{checkpoint} is not of a language model: it has no --tokens-per-sample")
    if task.get("output_dictionary_size", -1) not in (-1, None):
        raise Failure(f"{checkpoint} predicts a part of the dictionary: train without --output-dictionary-size")
    return Blocks(tokens, bool(task.get("add_bos_token")))
