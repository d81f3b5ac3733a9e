"""Reads a model folder: ``checkpoint.pt``, ``bpecodes``, the two dictionaries and ``prepare.json`` of one run.

``scripts/average.sh`` makes such folders.
"""

import json
from pathlib import Path
from typing import Any, Dict, Tuple

from fairseq import checkpoint_utils

from .files import CheckpointError, load_checkpoint

CHECKPOINT = "checkpoint.pt"


def read_task(folder: Path, checkpoint: str = CHECKPOINT) -> Dict[str, Any]:
    task = (load_checkpoint(folder / checkpoint).get("cfg") or {}).get("task", {})
    return dict(task) if isinstance(task, dict) else vars(task)


def read_languages(folder: Path, checkpoint: str = CHECKPOINT) -> Tuple[str, str]:
    """Source and target language of the model; their dictionaries are in the folder.

    Raises:
        CheckpointError: a file is missing or cannot be used, or the checkpoint names no languages.
    """
    task = read_task(folder, checkpoint)
    source, target = task.get("source_lang"), task.get("target_lang")
    if not source or not target:
        raise CheckpointError(f"{folder}: the model was trained without --source-lang and --target-lang")
    check_files(folder, f"dict.{source}.txt", f"dict.{target}.txt")
    return source, target


def check_files(folder: Path, *names: str) -> None:
    """Raises CheckpointError if one of these files is missing."""
    for name in names:
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder / name}: missing: scripts/average.sh makes a complete model folder")


def read_preparation(folder: Path) -> Dict[str, str]:
    """How the training text was split, as ``prepare.json`` says: ``hyphens`` and ``vocabulary_threshold``."""
    path = folder / "prepare.json"
    prepared = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    defaults = {"hyphens": "split", "vocabulary_threshold": "0"}
    return {name: prepared.get(name, default) for name, default in defaults.items()}


def load_model(folder: Path, checkpoint: str = CHECKPOINT) -> Any:
    """The model of a checkpoint with its dictionaries beside it, in eval mode on the CPU.

    Raises:
        CheckpointError: a file is missing or cannot be used, or the checkpoint names no languages.
    """
    read_languages(folder, checkpoint)
    overrides = {"data": str(folder)}
    models, _, _ = checkpoint_utils.load_model_ensemble_and_task([str(folder / checkpoint)], overrides)
    return models[0].eval()
