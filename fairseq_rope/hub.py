"""What the models' ``from_pretrained`` share: fairseq's, and words for what it does not refuse in words."""

import errno
import json
import os
import re
from pathlib import Path
from typing import Any, Dict, Sequence

from fairseq import hub_utils
from fairseq.hub_utils import GeneratorHubInterface
from torch import Tensor

from .kinds import KINDS

SPLIT, REPLACED = os.pathsep, "${"


def check_name(folder: Path, signs: Sequence[str] = (SPLIT, REPLACED)) -> None:
    """Raises ValueError for a folder whose name fairseq splits (``a:b`` are two of data) or replaces in part."""
    for sign in signs:
        if sign in str(folder.absolute()):  # as fairseq's hub has it
            raise ValueError(f"{folder}: fairseq does not take '{sign}' for a part of the name: rename the folder")


WAYS = {
    "bpe": "bpe='subword_nmt', tokenizer='moses'",
    "sentencepiece": "bpe='sentencepiece'",
    "bytes": "bpe='bytes'",
    "marian": "bpe='sentencepiece', sentencepiece_model='FOLDER/source.spm'",
}
"""The options of ``from_pretrained`` for each ``--subwords`` of the scripts."""


class Interface(GeneratorHubInterface):
    """fairseq's interface to trained models. It refuses text that it cannot split: its words would be unknown."""

    def __init__(self, cfg: Any, task: Any, models: Any, folder: str) -> None:
        super().__init__(cfg, task, models)
        self.splits = WAYS.get(prepared(folder).get("subwords", ""), "")
        """What splits text as the scripts did for the training; empty if that is not known."""

    def encode(self, sentence: str) -> Tensor:
        """As in fairseq; ValueError if ``from_pretrained`` had no ``bpe``, and the training had subwords."""
        if self.bpe is None and self.splits:
            raise ValueError(f"give from_pretrained {self.splits}; text that you have split goes to binarize()")
        tokens: Tensor = super().encode(sentence)
        return tokens


def prepared(folder: str) -> Dict[str, Any]:
    """What the scripts say of the data in ``prepare.json``; empty without that file."""
    try:
        content = json.loads(Path(folder, "prepare.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def load(kind: str, folder: str, checkpoint_file: str, data: str, **options: Any) -> Dict[str, Any]:
    """The models, their task and their configuration, as in ``fairseq.hub_utils.from_pretrained``.

    Args:
        kind: of the models, one of :data:`KINDS`.
        folder: with the checkpoint; fairseq also takes an archive, or a URL of one.
        checkpoint_file: in ``folder``; several with a colon between them.
        data: the folder of the dictionaries; relative to ``folder`` if it begins with a dot.
        options: replace those of the checkpoint.

    Raises:
        FileNotFoundError: a folder or the checkpoint is missing.
        ValueError: fairseq does not take the name of a folder, or a model is of another kind.
    """
    places = {str(folder): [REPLACED]}
    if not data.startswith("."):
        places[data] = [SPLIT, REPLACED]
    elif Path(folder).is_dir():
        places[str(Path(folder, data))] = [SPLIT, REPLACED]
    for place, signs in places.items():
        if "://" not in place:
            if not Path(place).exists():
                raise FileNotFoundError(errno.ENOENT, "No such folder", place)
            check_name(Path(place), signs)
    lang = prepared(folder).get("source")
    if kind != "translation" and isinstance(lang, str):  # by whose rules a tokenizer splits
        lang = re.split("[-_]", lang)[0].lower()
        options = {"source_lang": lang, "target_lang": lang, **options}
    found: Dict[str, Any] = hub_utils.from_pretrained(folder, checkpoint_file, data, {}, **options)
    for model in found["models"]:
        if not isinstance(model, KINDS[kind].base):
            raise ValueError(f"{folder} has no {kind} model: it is a {type(model).__name__}")
    return found
