"""Reads a model folder: ``checkpoint.pt``, ``bpecodes``, the two dictionaries and ``prepare.json`` of one run.

``scripts/average.sh`` makes such folders.
"""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterable, Tuple

from fairseq import checkpoint_utils
from fairseq.data import Dictionary

from .files import CheckpointError, load_checkpoint

CHECKPOINT = "checkpoint.pt"
REMEDY = "scripts/average.sh makes a complete model folder"


@dataclass(frozen=True)
class Preparation:
    """How the training text was prepared, as ``prepare.json`` says."""

    hyphens_kept: bool = False
    """Whether words were not split at hyphens."""
    vocabulary_threshold: int = 0
    """Subwords that are rarer than this on their side of the training set were split; 0: none."""
    sha256: Dict[str, str] = field(default_factory=dict)
    """The hash of each file, by its name."""

    def check(self, files: Iterable[Path]) -> None:
        """Raises CheckpointError if a file does not have its hash; files without a hash pass."""
        for file in files:
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            if self.sha256.get(file.name, digest) != digest:
                raise CheckpointError(f"{file} is damaged: its SHA-256 is not that in prepare.json: {REMEDY}")


def read_languages(folder: Path, checkpoint: str = CHECKPOINT) -> Tuple[str, str]:
    """Source and target language of the model; their dictionaries are in the folder.

    Raises:
        CheckpointError: a file is missing or cannot be used, the checkpoint names no languages, or a dictionary does
            not belong to the model.
    """
    state = load_checkpoint(folder / checkpoint)
    task = (state.get("cfg") or {}).get("task", {})
    task = task if isinstance(task, dict) else vars(task)
    source, target = task.get("source_lang"), task.get("target_lang")
    if not source or not target:
        raise CheckpointError(f"{folder}: the model was trained without --source-lang and --target-lang")
    for side, lang in (("encoder", source), ("decoder", target)):
        path, embeddings = folder / f"dict.{lang}.txt", state["model"].get(f"{side}.embed_tokens.weight")
        check_files(folder, path.name)
        types = len(read_dictionary(path, REMEDY))
        if embeddings is not None and types != len(embeddings):
            raise CheckpointError(f"{path} has {types} types with fairseq's own, the model {len(embeddings)}: {REMEDY}")
    return source, target


def read_dictionary(path: Path, remedy: str) -> Dictionary:
    """fairseq's dictionary.

    Raises:
        CheckpointError: it cannot be read; the message names ``remedy``.
    """
    try:
        return Dictionary.load(str(path))
    except Exception as error:  # fairseq raises this class itself for text that is not UTF-8
        reason = " ".join(str(error).split(". ")[0].split())
        raise CheckpointError(f"{path} cannot be used ({reason}): {remedy}") from None


def check_files(folder: Path, *names: str) -> None:
    """Raises CheckpointError if one of these files is missing."""
    for name in names:
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder / name}: missing: {REMEDY}")


def read_preparation(folder: Path) -> Preparation:
    """The content of ``prepare.json``; without that file, the defaults of ``scripts/prepare.sh``.

    Raises:
        CheckpointError: it is damaged, or an entry is not what ``scripts/prepare.sh`` writes.
    """
    path = folder / "prepare.json"
    if not path.is_file():
        return Preparation()
    try:
        prepared = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is not JSON, or damaged: {REMEDY}") from None
    if not isinstance(prepared, dict):
        raise CheckpointError(f"{path} is not what scripts/prepare.sh writes: {REMEDY}")
    hyphens, threshold = prepared.get("hyphens", "split"), prepared.get("vocabulary_threshold", "0")
    hashes = prepared.get("sha256", {})
    if hyphens not in ("split", "kept"):
        raise CheckpointError(f"{path} has {hyphens!r} as 'hyphens', which must be 'split' or 'kept': {REMEDY}")
    if not (isinstance(threshold, str) and threshold.isascii() and threshold.isdecimal()):
        raise CheckpointError(f"{path} has {threshold!r} as 'vocabulary_threshold', which must be digits: {REMEDY}")
    if not isinstance(hashes, dict):
        raise CheckpointError(f"{path} has {hashes!r:.40} as 'sha256', which must be an object: {REMEDY}")
    return Preparation(hyphens == "kept", int(threshold), hashes)


def load_model(folder: Path, checkpoint: str = CHECKPOINT) -> Any:
    """The model of a checkpoint with its dictionaries beside it, in eval mode on the CPU.

    Raises:
        CheckpointError: a file is missing or cannot be used, or the checkpoint names no languages.
    """
    read_languages(folder, checkpoint)
    overrides = {"data": str(folder)}
    models, _, _ = checkpoint_utils.load_model_ensemble_and_task([str(folder / checkpoint)], overrides)
    return models[0].eval()
