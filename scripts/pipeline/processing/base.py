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


STRANGE = 100
"""One type of a dictionary in this many may be none that the codes make: languages' tags, protected words."""

PADDING = re.compile("madeupword[0-9]{4}")
"""Types that fairseq adds to a dictionary."""

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

    @staticmethod
    def makes(codes: Any, token: str) -> bool:
        """Whether a text can have this token when it was split with what :meth:`read` gave."""
        return True

    @classmethod
    def check_codes(cls, path: Path, types: Sequence[str], remedy: str) -> Any:
        """What :meth:`read` gives.

        Args:
            types: of the source dictionary, without fairseq's own.

        Raises:
            Failure: the file is missing, damaged, cut off, or of other data than the dictionary.
        """
        codes = cls.read(path, remedy)
        types = [token for token in types if not PADDING.fullmatch(token)]
        others = [token for token in types if not cls.makes(codes, token)]
        if len(others) * STRANGE > len(types):
            raise Failure(
                f"{path} is cut off, or of other data: of {len(types)} types in the dictionary of the source, it makes "
                f"{len(types) - len(others)}, and not {others[-1]!a:.40}: {remedy}"
            )
        return codes

    def __init__(self, folder: Path, prepared: Prepared, source: str, target: str) -> None:
        self.folder, self.prepared, self.source, self.target = folder, prepared, source, target

    def _file(self, name: str, remedy: str) -> Path:
        """A file of the folder.

        Raises:
            Failure: it is missing.
        """
        path = self.folder / name
        if not path.is_file():
            prepared = self.prepared
            given = prepared.from_text or not prepared.sha256 or name in prepared.sha256
            raise Failure(f"{path}: missing: {remedy if given else NOT_GIVEN}")
        return path

    @abstractmethod
    def load(self, remedy: str, types: Sequence[str] = ()) -> None:
        """Reads the files that :meth:`split` needs.

        Args:
            types: of the source dictionary, without fairseq's own; none: they are not compared.

        Raises:
            Failure: a file is missing, damaged or of other data, or a package is not installed; the message names
                ``remedy``.
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
