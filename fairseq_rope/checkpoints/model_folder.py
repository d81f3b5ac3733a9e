"""Reads a model folder: ``checkpoint.pt``, the two dictionaries, ``prepare.json``, and ``bpecodes`` or
``sentencepiece.bpe.model`` of one run.

``scripts/average.sh`` makes such folders.
"""

import json
from pathlib import Path
from typing import Any, Dict, List, Tuple

from fairseq import checkpoint_utils
from fairseq.data import Dictionary

from .files import CheckpointError, load_checkpoint

CHECKPOINT = "checkpoint.pt"
DICTIONARY = "dict.txt"  # of language models
LANGUAGE_TASKS = ("masked_lm", "language_modeling")
REMEDY = "scripts/average.sh makes a complete model folder"


def read_languages(folder: Path, checkpoint: str = CHECKPOINT) -> Tuple[str, str]:
    """Source and target language of the model; their dictionaries are in the folder.

    Raises:
        CheckpointError: a file is missing or cannot be used, the checkpoint names no languages, or a dictionary or
            ``prepare.json`` does not belong to the model.
    """
    state = load_checkpoint(folder / checkpoint)
    task = _task(state)
    source, target = task.get("source_lang"), task.get("target_lang")
    if not source or not target:
        raise CheckpointError(f"{folder}: the model was trained without --source-lang and --target-lang")
    for side, lang in (("encoder", source), ("decoder", target)):
        path, embeddings = folder / f"dict.{lang}.txt", state["model"].get(f"{side}.embed_tokens.weight")
        check_files(folder, path.name)
        types = len(read_dictionary(path, REMEDY))
        if embeddings is not None and types != len(embeddings):
            raise CheckpointError(f"{path} has {types} types with fairseq's own, the model {len(embeddings)}: {REMEDY}")
    _check_prepared(folder / "prepare.json", {"source": source, "target": target})
    return source, target


def _check_prepared(path: Path, languages: Dict[str, str]) -> None:
    """Raises CheckpointError if ``prepare.json`` is of other languages than the model; one that is damaged passes."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return
    for side, lang in languages.items():
        named = content.get(side, lang) if isinstance(content, dict) else lang
        if named != lang:
            raise CheckpointError(f"{path} has {named!a:.40} as {side} language, and the model {lang!a}: {REMEDY}")


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


def types(dictionary: Dictionary) -> List[str]:
    """The types of a dictionary, without fairseq's four own."""
    return list(dictionary.symbols[dictionary.nspecial :])


def check_files(folder: Path, *names: str) -> None:
    """Raises CheckpointError if one of these files is missing."""
    for name in names:
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder / name}: missing: {REMEDY}")


def text_files(folder: Path) -> List[Path]:
    """The files that say how to split text, as far as they are there."""
    names = ("prepare.json", "bpecodes", "sentencepiece.bpe.model", "vocab.txt", "tokenizer_config.json")
    return [folder / name for name in names if (folder / name).is_file()] + sorted(folder.glob("vocabulary.*"))


def load_model(folder: Path, checkpoint: str = CHECKPOINT) -> Any:
    """The model of a checkpoint with its dictionaries beside it, in eval mode on the CPU.

    Raises:
        CheckpointError: a file is missing or cannot be used, or the checkpoint names no languages.
    """
    read_languages(folder, checkpoint)
    return _load(folder, checkpoint)


def load_any_model(folder: Path, checkpoint: str = CHECKPOINT) -> Any:
    """As :func:`load_model`, and also a language model with ``dict.txt`` beside its checkpoint.

    Raises:
        CheckpointError: a file is missing or cannot be used, or files do not belong together.
    """
    state = load_checkpoint(folder / checkpoint)
    task = _task(state)
    if task.get("_name", task.get("task")) not in LANGUAGE_TASKS:
        return load_model(folder, checkpoint)
    remedy = "copy it from the folder of the binarised data"
    if not (folder / DICTIONARY).is_file():
        raise CheckpointError(f"{folder / DICTIONARY}: missing: {remedy}")
    dictionary = read_dictionary(folder / DICTIONARY, remedy)
    if task.get("_name", task.get("task")) == "masked_lm":
        dictionary.add_symbol("<mask>")  # as the task does
    tables = [value for name, value in state["model"].items() if name.endswith("embed_tokens.weight")]
    if tables and len(dictionary) != len(tables[0]):
        types = f"{len(dictionary)} types with fairseq's own, the model {len(tables[0])}"
        raise CheckpointError(f"{folder / DICTIONARY} has {types}: {remedy}")
    return _load(folder, checkpoint)


def _task(state: Dict[str, Any]) -> Dict[str, Any]:
    """The task's options in a loaded checkpoint."""
    task = (state.get("cfg") or {}).get("task", {})
    return task if isinstance(task, dict) else vars(task)


def _load(folder: Path, checkpoint: str) -> Any:
    overrides = {"data": str(folder)}
    models, _, _ = checkpoint_utils.load_model_ensemble_and_task([str(folder / checkpoint)], overrides)
    return models[0].eval()
