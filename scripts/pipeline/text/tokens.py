"""Tokens that the user makes: nothing is split or joined."""

from typing import List, Sequence

from .base import Text, known


class Tokens(Text):
    """Sentences are tokens with spaces between them, on both sides of the model."""

    applies_to = ("binarized",)
    figure = "on the tokens as trained"

    def apply(self, lines: Sequence[str]) -> List[str]:
        return list(lines)

    def text(self, printed: Sequence[str]) -> List[str]:
        return [" ".join(known(line)) for line in printed]
