"""The pieces of MarianMT (OPUS-MT): a model of SentencePiece for each side, and one vocabulary."""

from functools import partial
from typing import Any, Dict, List, Sequence

from ..command import Failure
from .preparation import Preparation, Split
from .sentencepiece import SentencePiece

SIDES = ("source.spm", "target.spm")


class Marian(SentencePiece):
    """Splits each side with its own model, and joins pieces; a first word ``>>fra<<`` names a language, and stays.

    Its files come with a model that ``fairseq-rope convert`` made; it learns nothing, so it needs ``--like``.
    """

    applies_to = ()
    options = {}
    codes = SIDES[0]

    def apply(self, lines: Sequence[str]) -> List[str]:
        return _apply(self.model, lines)

    def prepare(self, preparation: Preparation) -> Dict[str, str]:
        models = dict(zip(preparation.langs, SIDES))

        def way(lang: str) -> Split:
            return partial(_apply, self.read(preparation.folder / models[lang], preparation.again))

        def work() -> None:
            raise Failure("Marian's pieces come with a model: give it as --like FOLDER")

        preparation.learn("take-marian", ["marian.json", *self.files(preparation.langs)], work)
        preparation.split("apply-marian", "raw", self.tokens, way)
        return {}

    def files(self, langs: Sequence[str]) -> List[str]:
        return [*SIDES, "vocab.json", "tokenizer_config.json"]

    def load(self, remedy: str, types: Sequence[str] = ()) -> None:
        self.model = self.read(self._file(self.codes, remedy), remedy)


def _apply(model: Any, lines: Sequence[str]) -> List[str]:
    found = []
    for line in lines:
        code, end, rest = line.partition("<<") if line.startswith(">>") else ("", "", line)
        tag, rest = ([f"{code}<<"], rest) if end else ([], line)
        found.append(" ".join([*tag, *model.encode(rest, out_type=str)]))
    return found
