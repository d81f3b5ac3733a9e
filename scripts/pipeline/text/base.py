"""What a way of splitting text does, on both sides of a model: sentences to its tokens, and its tokens to text."""

import re
from abc import ABC, abstractmethod
from itertools import islice
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ..command import Failure
from ..prepared import Prepared
from .preparation import Preparation
from .segments import join_segments, split_segments

UNKNOWN = "⁇"
"""Stands for fairseq's ``<unk>`` in text: one word, which no reference has. ``<unk>`` itself would count as three
tokens, and match a literal ``<unk>`` in a reference."""

UNKNOWN_TOKENS = ("<unk>", "<<unk>>")
"""An unknown token as fairseq prints it, in a hypothesis and in a reference."""

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


def known(tokens: str) -> List[str]:
    """The tokens of a line, with :data:`UNKNOWN` for unknown ones."""
    return [UNKNOWN if token in UNKNOWN_TOKENS else token for token in tokens.split(" ")]


class Text(ABC):
    """A way of splitting text. One that learns nothing needs :meth:`apply` and :meth:`text` alone.

    Args:
        folder: has the files that say how to split the source: prepared data, or a model folder.
        prepared: the content of its ``prepare.json``.
        source, target: the languages.
    """

    applies_to: Tuple[str, ...] = ("pairs", "text", "binarized")
    """What may be split in this way: ``pairs`` by ``prepare.sh``, ``text`` by ``prepare_text.sh``, and what a user has
    ``binarized``."""

    options: Mapping[str, Mapping[str, Any]] = {}
    """Options of the scripts that are for this way alone, as for ``Parser.add_argument``."""

    ratio = "none"
    """The default of ``prepare.sh --ratio``."""

    tokens = ""
    """The folder of the tokens, in prepared data."""

    codes = ""
    """The file that has what was learned, by the name under which fairseq's ``from_pretrained`` finds it."""

    post_process = ""
    """The value of ``--post-process`` for fairseq-generate; empty: none, it prints the model's tokens."""

    figure = ""
    """The tokens of the BLEU that fairseq-generate prints; empty: the usual ones."""

    def __init__(self, folder: Path, prepared: Prepared, source: str, target: str) -> None:
        self.folder, self.prepared, self.source, self.target = folder, prepared, source, target

    @abstractmethod
    def apply(self, lines: Sequence[str]) -> List[str]:
        """Lines of the source as the model's tokens, with spaces between them; needs :meth:`load`."""

    @abstractmethod
    def text(self, printed: Sequence[str]) -> List[str]:
        """What fairseq-generate prints, with :attr:`post_process`, as text of the target language."""

    def blocks(self, printed: Sequence[str]) -> List[str]:
        """What fairseq-generate prints for blocks of documents, as text with the separators."""
        blocks = [split_segments(block) for block in printed]
        texts = iter(self.text([segment for block in blocks for segment in block]))
        return [join_segments(islice(texts, len(block))) for block in blocks]

    def split(self, sentences: Sequence[str]) -> List[str]:
        """The tokens of sentences, which may have several lines; needs :meth:`load`."""
        return self.apply([one_line(sentence) for sentence in sentences])

    def join(self, tokens: Sequence[str]) -> List[str]:
        """The model's tokens as text of the target language."""
        return self.text(tokens)

    def prepare(self, preparation: Preparation) -> Dict[str, str]:
        """Learns how to split the sets of a preparation, and splits them; returns entries of ``prepare.json``.

        The entries have the values of :attr:`options`, under their names. The entry with the name of the way itself is
        for the numbers of what was learned. Trained runs know their data by the settings and names of the steps: never
        change them.
        """
        preparation.split(f"apply-{self.tokens}", "raw", self.tokens, lambda lang: self.apply)
        return {}

    @classmethod
    def options_in(cls, info: Mapping[str, Any]) -> Dict[str, Any]:
        """The values of :attr:`options` in the content of ``prepare.json``, for ``prepare.sh --like``."""
        names = {option.replace("-", "_"): how.get("default") for option, how in cls.options.items()}
        return {name: info.get(name, default) for name, default in names.items()}

    @staticmethod
    def found_in(dictionaries: Sequence[Mapping[str, int]], codes: Any) -> Dict[str, str]:
        """Entries of ``prepare.json`` for data that a user binarised, as their dictionaries tell.

        Args:
            codes: what :meth:`read` gave; None if the user has none.
        """
        return {"hyphens": "kept"}

    def files(self, langs: Sequence[str]) -> List[str]:
        """The names of the files that say how text is split, after :meth:`prepare`."""
        return [self.codes] if self.codes else []

    def load(self, remedy: str, types: Sequence[str] = ()) -> None:
        """Reads what :meth:`apply` needs: ``learned`` is what :meth:`read` gives.

        Args:
            types: of the source dictionary, without fairseq's own; none: they are not compared.

        Raises:
            Failure: a file is missing, damaged or of other data; the message names ``remedy``.
        """
        if not self.codes:
            return
        path, prepared = self.folder / self.codes, self.prepared
        if not path.is_file():
            never = prepared.sha256 and not prepared.from_text and self.codes not in prepared.sha256
            raise Failure(f"{path}: missing: {NOT_GIVEN if never else remedy}")
        self.learned = self.check_codes(path, types, remedy)

    @staticmethod
    def read(path: Path, remedy: str) -> Any:
        """What was learned, from its file; None if this way learns nothing.

        Raises:
            Failure: the file is damaged; the message names ``remedy``.
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
            Failure: the file is damaged, cut off, or of other data than the dictionary.
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
