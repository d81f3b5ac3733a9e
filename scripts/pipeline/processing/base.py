"""The two directions of text processing: sentences to the model's tokens, and its tokens to text."""

import re
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, List, Sequence

from ..command import Failure
from ..prepared import Prepared

UNKNOWN = "⁇"
"""Stands for fairseq's ``<unk>`` in text: one word, which no reference has. ``<unk>`` itself would count as three
tokens, and match a literal ``<unk>`` in a reference."""

SPACES = re.compile("[\t\r\v\f\x1c-\x1e\x85\u2028\u2029]")
"""Characters that become spaces: those other than the newline at which some later tool would split a line; and the tab,
because the removal of control characters would join the words around it."""


NOT_GIVEN = "give it with scripts/prepare.sh --binarized BIN --codes FILE, then run scripts/average.sh again"


def one_line(sentence: str) -> str:
    """A sentence as a line of the checked copy of a corpus."""
    return SPACES.sub(" ", sentence.replace("\n", " ")).strip()


class Processing(ABC):
    """The text processing around one model.

    Args:
        folder: has the files that say how to split the source.
        prepared: the content of its ``prepare.json``.
        source, target: the languages.
    """

    post_process = ""
    """The value of ``--post-process`` for fairseq-generate; empty: none, it prints the model's tokens."""

    figure = ""
    """The tokens of the BLEU that fairseq-generate prints; empty: the usual ones."""

    @staticmethod
    def read(path: Path, remedy: str) -> Any:
        """The codes or the model in a file; None if this kind has none.

        Raises:
            Failure: the file is missing or damaged; the message names ``remedy``.
        """
        return None

    def __init__(self, folder: Path, prepared: Prepared, source: str, target: str) -> None:
        self.folder, self.prepared, self.source, self.target = folder, prepared, source, target

    def _file(self, name: str, remedy: str) -> Path:
        """A file of the folder.

        Raises:
            Failure: it is missing.
        """
        path = self.folder / name
        if not path.is_file():
            given = not self.prepared.sha256 or name in self.prepared.sha256
            raise Failure(f"{path}: missing: {remedy if given else NOT_GIVEN}")
        return path

    @abstractmethod
    def load(self, remedy: str) -> None:
        """Reads the files that :meth:`split` needs.

        Raises:
            Failure: a file is missing or damaged, or a package is not installed; the message names ``remedy``.
        """

    @abstractmethod
    def split(self, sentences: Sequence[str]) -> List[str]:
        """Sentences of the source as the model's tokens, with spaces between them; needs :meth:`load`."""

    @abstractmethod
    def join(self, tokens: Sequence[str]) -> List[str]:
        """The model's tokens as text of the target language."""

    @abstractmethod
    def text(self, printed: Sequence[str]) -> List[str]:
        """What fairseq-generate prints, with :attr:`post_process`, as text of the target language."""
