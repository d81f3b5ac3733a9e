"""Tells text that Moses and BPE cannot split: without spaces, or with marks of their own. It needs no fairseq."""

import re
import unicodedata
from collections import Counter
from itertools import islice
from pathlib import Path

from sacremoses import MosesTokenizer

from ..command import say
from .text import CorpusError, lines

SCRIPTS = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9d"
    "\U00020000-\U0003ffff]"
)
"""Characters of scripts that are written without spaces: Thai, Lao, Tibetan, Burmese, Khmer, Kana, Chinese."""

LINES = 10000
RARE = 1000
"""One in so many characters may be a mark that is split off."""
LONGEST = 6
"""Characters of a word, on average. Segmented text in these scripts has words of 2 to 5 characters; text that is not
segmented has 10 and more between two spaces."""


def check_spaces(path: Path) -> None:
    """Raises CorpusError if most of the text is in such a script, and is not segmented into words."""
    characters = words = without = 0
    for line in islice(lines(path), LINES):
        words += len(line.split())
        characters += len("".join(line.split()))
        without += len(SCRIPTS.findall(line))
    if 2 * without > characters > LONGEST * words:
        raise CorpusError(
            f"{path}: no spaces separate its words ({characters / words:.0f} characters between two spaces), and Moses "
            "and BPE need them: give --subwords sentencepiece, or text that is segmented into words"
        )


def check_marks(path: Path, lang: str) -> None:
    """Says if Moses splits the combining marks of a text from their letters: the way back does not join them."""
    text = "".join(islice(lines(path), LINES))
    marks = Counter(character for character in text if unicodedata.category(character) in ("Mn", "Mc"))
    moses = MosesTokenizer(lang)
    split = sum(count for mark, count in marks.items() if len(moses.tokenize(f"a{mark}a", escape=False)) > 1)
    if split * RARE > len(text):
        say(
            f"{path}: Moses splits {split:,} combining marks from their letters, which lowers BLEU: compose them "
            "(Unicode's NFC), or give --subwords sentencepiece"
        )
