"""Tokens that the user makes: nothing is split or joined."""

from typing import List, Sequence

from .base import UNKNOWN, Processing, one_line

UNKNOWN_TOKENS = ("<unk>", "<<unk>>")
"""An unknown token as fairseq prints it, in a hypothesis and in a reference."""


def known(tokens: str) -> List[str]:
    """The tokens of a line, with :data:`UNKNOWN` for unknown ones."""
    return [UNKNOWN if token in UNKNOWN_TOKENS else token for token in tokens.split(" ")]


class Tokens(Processing):
    """Sentences are tokens with spaces between them, on both sides of the model."""

    figure = "on the tokens as trained"

    def load(self, remedy: str, types: Sequence[str] = ()) -> None:
        """It needs no files."""

    def split(self, sentences: Sequence[str]) -> List[str]:
        return [one_line(sentence) for sentence in sentences]

    def join(self, tokens: Sequence[str]) -> List[str]:
        return self.text(tokens)

    def text(self, printed: Sequence[str]) -> List[str]:
        return [" ".join(known(line)) for line in printed]
