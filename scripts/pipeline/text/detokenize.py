"""Turns Moses tokens into text, as a person would write it."""

import re
from typing import Dict, List, Sequence, Tuple

from sacremoses import MosesDetokenizer

from ..languages import base
from .base import UNKNOWN

Rules = Tuple[Tuple["re.Pattern[str]", str], ...]

HYPHEN = "@-@"
"""The token that Moses makes of a hyphen where it splits a word. It makes nothing else of that kind: a text that holds
``@-@`` becomes the tokens ``@ - @``."""

HYPHENS = re.compile(rf" ?(?<!\S){HYPHEN}(?!\S) ?")

AFTER_MOSES = (
    (re.compile(r" ?/ ?"), "/"),  # km / h
    (re.compile(r"(\d )([$£€¥])(?=[^\W\d_])"), r"\1\2 "),  # 90 £sowie; but: costs £90
    (re.compile(r"(?<![\w.,])([01]?\d|2[0-4]): (?=[0-5]\d(?:[ap]m\b|(?!\w|[.,]\d)))"), r"\1:"),  # 10: 30
    (re.compile(r"(?<=\d:[0-5]\d): (?=[0-5]\d(?!\w))"), ":"),  # 10:30: 15
    (re.compile(r"(?<=\w) @ (?=[\w-]+(?:\.[\w-]+)*\.[^\W\d_]{2,}(?!\w))"), "@"),  # a.b @ c.de
)
"""Corrections to the output of sacremoses' detokeniser, where it leaves tokens apart or joins them wrongly."""

GERMAN = (
    (re.compile(r"(?<=\w) &apos; (?=s(?: |$))"), "&apos;"),  # gibt ' s
    (re.compile(r"(?<!\S)([CDILOcdl]) &apos; (?=[^\W\d_])"), r"\1&apos;"),  # O ' Connor
)
CATALAN = ((re.compile(r"(?<!\S)([dlmnstDLMNST]) &apos; (?=\w)"), r"\1&apos;"),)  # l ' home
PORTUGUESE = ((re.compile(r"(?<!\S)([dD]) &apos; (?=\w)"), r"\1&apos;"),)  # d ' água
TURKISH = (
    (re.compile(r"(?<!\S)([A-ZÇĞİÖŞÜƏ\d]\S*) &apos; (?=[^\W\d_A-ZÇĞİÖŞÜƏ]{1,7}(?!\S))"), r"\1&apos;"),
)  # Ankara ' da
APOSTROPHES: Dict[str, Rules] = {
    "de": GERMAN,
    **dict.fromkeys(("ca", "oc"), CATALAN),
    **dict.fromkeys(("pt", "gl"), PORTUGUESE),
    **dict.fromkeys(("tr", "az"), TURKISH),
    "uk": ((re.compile(r"(?<=\w) &apos; (?=[яюєїЯЮЄЇ])"), "&apos;"),),  # п ' ять
    "be": ((re.compile(r"(?<=\w) &apos; (?=[еёіюяЕЁІЮЯ])"), "&apos;"),),
    "uz": ((re.compile(r"(?<=[oOgG]) &apos; (?=\w)"), "&apos;"),),  # o ' zbek
}
"""Apostrophes inside words, by language: Moses splits both sides off, and the detokeniser takes them for quotes."""

REJOINED = {*APOSTROPHES, "cs"} - {"de"}
"""Languages whose text was joined otherwise before: their scores are made anew."""

CZECH_END = re.compile(r"(?<!\S)\d+ [.,]$")
"""An end of a Czech line behind which sacremoses joins every number of the line to the word before it."""


def detokenize(lines: Sequence[str], lang: str) -> List[str]:
    """Turns Moses tokens (escaped, without BPE, hyphens split or not) into text; ``<unk>`` becomes :data:`UNKNOWN`.

    Every :data:`HYPHEN` joins its neighbours, also where a model puts several in a row; sacremoses would leave every
    second one.
    """
    detokenizer = MosesDetokenizer(base(lang))
    texts = []
    for line in lines:
        line = " ".join(line.replace("<unk>", UNKNOWN).split())
        for pattern, replacement in APOSTROPHES.get(base(lang), ()):
            line = pattern.sub(replacement, line)
        tokens = HYPHENS.sub("-", line).split(" ")
        end = tokens[-1] if CZECH_END.search(line) and base(lang) == "cs" else ""
        text = detokenizer.detokenize(tokens[:-1] if end else tokens) + end
        for pattern, replacement in AFTER_MOSES:
            text = pattern.sub(replacement, text)
        texts.append(text)
    return texts
