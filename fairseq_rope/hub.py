"""What the models' ``from_pretrained`` share: fairseq's, and words for what it does not refuse in words."""

import errno
import os
from pathlib import Path
from typing import Any, Dict, Sequence

from fairseq import hub_utils

from .kinds import KINDS

SPLIT, REPLACED = os.pathsep, "${"


def check_name(folder: Path, signs: Sequence[str] = (SPLIT, REPLACED)) -> None:
    """Raises ValueError for a folder whose name fairseq splits (``a:b`` are two of data) or replaces in part."""
    for sign in signs:
        if sign in str(folder.absolute()):  # as fairseq's hub has it
            raise ValueError(f"{folder}: fairseq does not take '{sign}' for a part of the name: rename the folder")


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
    found: Dict[str, Any] = hub_utils.from_pretrained(folder, checkpoint_file, data, {}, **options)
    for model in found["models"]:
        if not isinstance(model, KINDS[kind].base):
            raise ValueError(f"{folder} has no {kind} model: it is a {type(model).__name__}")
    return found
