"""Turns Moses tokens into text, as a person would write it."""

import re
from typing import List, Sequence

from sacremoses import MosesDetokenizer

from ..languages import base
from .base import UNKNOWN

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

GERMAN_APOSTROPHES = (
    (re.compile(r"(?<=\w) &apos; (?=s(?: |$))"), "&apos;"),  # gibt ' s
    (re.compile(r"(?<!\S)([CDILOcdl]) &apos; (?=[^\W\d_])"), r"\1&apos;"),  # O ' Connor
)
"""Apostrophes inside words: the German tokeniser splits both sides off, and the detokeniser takes them for quotes."""

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
        for pattern, replacement in GERMAN_APOSTROPHES if base(lang) == "de" else ():
            line = pattern.sub(replacement, line)
        tokens = HYPHENS.sub("-", line).split(" ")
        end = tokens[-1] if CZECH_END.search(line) and base(lang) == "cs" else ""
        text = detokenizer.detokenize(tokens[:-1] if end else tokens) + end
        for pattern, replacement in AFTER_MOSES:
            text = pattern.sub(replacement, text)
        texts.append(text)
    return texts
