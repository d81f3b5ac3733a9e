"""The kinds of text processing, and the choice among them. It needs no fairseq."""

from pathlib import Path
from typing import Dict, Type

from ..prepared import Prepared
from .base import Processing
from .bytes import Bytes
from .moses_bpe import MosesBPE
from .pieces import SentencePiece
from .tokens import Tokens

KINDS: Dict[str, Type[Processing]] = {"bpe": MosesBPE, "sentencepiece": SentencePiece, "none": Tokens, "bytes": Bytes}
"""By the option ``--subwords`` of ``scripts/prepare.sh`` and ``scripts/prepare_text.sh``."""


def text_processing(folder: Path, prepared: Prepared, source: str, target: str) -> Processing:
    """The text processing of prepared data, or of a model folder.

    Args:
        folder: has the files that say how to split the source.
        source, target: the languages.
    """
    return KINDS[prepared.subwords](folder, prepared, source, target)
