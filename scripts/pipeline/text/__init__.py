"""The ways of splitting text into the tokens of a model and of joining them again: one class in one file for each."""

from pathlib import Path
from typing import Dict, Type

from ..command import Failure
from ..prepared import NAME, Prepared
from .base import Text
from .bytes import Bytes
from .marian import Marian
from .moses_bpe import MosesBPE
from .sentencepiece import SentencePiece
from .tokens import Tokens

TEXTS: Dict[str, Type[Text]] = {
    "bpe": MosesBPE,
    "sentencepiece": SentencePiece,
    "marian": Marian,
    "none": Tokens,
    "bytes": Bytes,
}
"""By the option ``--subwords`` of ``scripts/prepare.sh`` and ``scripts/prepare_text.sh``."""


def text_processing(folder: Path, prepared: Prepared, source: str, target: str) -> Text:
    """The way in which the text of prepared data, or of a model folder, was split.

    Args:
        folder: has the files that say how to split the source.
        source, target: the languages.
    """
    if prepared.subwords not in TEXTS:
        raise Failure(f"{folder / NAME} has {prepared.subwords!a} as 'subwords', not one of {', '.join(TEXTS)}")
    return TEXTS[prepared.subwords](folder, prepared, source, target)
