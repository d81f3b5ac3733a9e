"""The pieces of MarianMT (OPUS-MT): a model of SentencePiece for each side, and one vocabulary."""

import re
from functools import partial
from typing import Any, Dict, List, Sequence

from .preparation import Preparation, Split
from .sentencepiece import SentencePiece

SIDES = ("source.spm", "target.spm")

TAG = re.compile("(>>.*?<<)?(.*)", re.DOTALL)
"""A line, with the name of a language before it."""


class Marian(SentencePiece):
    """Splits each side with its own model, and joins pieces; a first word ``>>fra<<`` names a language, and stays.

    Its files come with a model that ``fairseq-rope convert`` made; it learns nothing, so it needs ``--like``.
    """

    applies_to = ()
    options = {}
    codes = SIDES[0]

    def apply(self, lines: Sequence[str]) -> List[str]:
        return _apply(self.learned, lines)

    def prepare(self, preparation: Preparation) -> Dict[str, str]:
        models = dict(zip(preparation.langs, SIDES))

        def way(lang: str) -> Split:
            return partial(_apply, self.read(preparation.folder / models[lang], preparation.again))

        preparation.learn("take-marian", ["marian.json", *self.files(preparation.langs)])
        preparation.split("apply-marian", "raw", self.tokens, way)
        return {}

    def files(self, langs: Sequence[str]) -> List[str]:
        return [*SIDES, "vocab.json", "tokenizer_config.json"]

    @staticmethod
    def makes(codes: Any, token: str) -> bool:
        return True  # the vocabulary has the pieces of both models


def _apply(model: Any, lines: Sequence[str]) -> List[str]:
    found = []
    for line in lines:
        tag, text = TAG.match(line).groups()  # type: ignore[union-attr]
        found.append(" ".join([*filter(None, [tag]), *model.encode(text, out_type=str)]))
    return found
