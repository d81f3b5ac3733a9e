"""Reads a model folder: ``checkpoint.pt``, the two dictionaries, ``prepare.json``, and ``bpecodes`` or
``sentencepiece.bpe.model`` of one run.

``scripts/average.sh`` makes such folders.
"""

import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from .. import hub
from ..loading import DictionaryError, entry
from . import multilingual
from .files import CheckpointError, check_finite, load_checkpoint
from .multilingual import Direction

CHECKPOINT = "checkpoint.pt"
DICTIONARY = "dict.txt"  # of language models, and of all languages of a model of several
FINE_TUNED = ("sentence_prediction", "sentence_ranking")
MASKED = ("masked_lm", *FINE_TUNED)
REMEDY = "scripts/average.sh makes a complete model folder"


def read_direction(
    folder: Path, checkpoint: str = CHECKPOINT, source: Optional[str] = None, target: Optional[str] = None
) -> Direction:
    """The model's languages, or those of a model of several that are named; their dictionaries are in the folder.

    A training that found them in the names of its data stores none. Then ``prepare.json`` names them.

    Raises:
        CheckpointError: a file is missing or cannot be used, nothing names the languages, or a dictionary or
            ``prepare.json`` does not belong to the model; or the model does not translate from ``source`` to
            ``target``, or both must be named.
        ValueError: fairseq does not take the name of the folder.
    """
    hub.check_name(folder)
    return _direction(folder, _load(folder / checkpoint), source, target)


def _load(path: Path) -> Dict[str, Any]:
    state = load_checkpoint(path)
    check_finite(state["model"], path)
    return state


def _direction(
    folder: Path, state: Dict[str, Any], source: Optional[str] = None, target: Optional[str] = None
) -> Direction:
    task = task_options(state)
    if multilingual.is_multilingual(task):
        direction = multilingual.direction(task, source, target)
    else:
        direction = Direction(*_languages(folder, task))
        if direction[:2] != (source or direction.source, target or direction.target):
            raise CheckpointError(f"{folder} translates from {direction.source} to {direction.target} alone")
    for side, lang in (("encoder", direction.source), ("decoder", direction.target)):
        path, embeddings = dictionary_path(folder, lang), state["model"].get(f"{side}.embed_tokens.weight")
        check_files(folder, path.name)
        dictionary = read_dictionary(path, REMEDY)
        if multilingual.is_multilingual(task):
            multilingual.add_tags(dictionary, task)
        types = len(dictionary)
        if embeddings is not None and types != len(embeddings):
            raise CheckpointError(f"{path} has {types} types with fairseq's own, the model {len(embeddings)}: {REMEDY}")
    return direction


def _languages(folder: Path, task: Dict[str, Any]) -> Tuple[str, str]:
    """The languages of a model of two."""
    path = folder / "prepare.json"
    prepared = hub.prepared(str(folder))
    source, target = (task.get(f"{side}_lang") or prepared.get(side) for side in ("source", "target"))
    if not isinstance(source, str) or not isinstance(target, str):
        wanted = 'such as {"source": "en", "target": "de"}'
        raise CheckpointError(f"{folder}: the checkpoint names no languages: write a {path.name} there, {wanted}")
    for side, lang in (("source", source), ("target", target)):
        if prepared.get(side, lang) != lang:
            said = f"has {prepared[side]!a:.40} as {side} language, and the model {lang!a}"
            raise CheckpointError(f"{path} {said}: {REMEDY}")
    return source, target


def dictionary_path(folder: Path, lang: str) -> Path:
    """The dictionary of a language; of all languages, if there is no other one."""
    own, common = folder / f"dict.{lang}.txt", folder / DICTIONARY
    return common if common.is_file() and not own.is_file() else own


def overrides(folder: Path, direction: Direction) -> Dict[str, str]:
    """The options of fairseq's task that a model folder has in place of those of the training."""
    found = {"source_lang": direction.source, "target_lang": direction.target}
    path = dictionary_path(folder, direction.target)
    return {**found, "fixed_dictionary": str(path)} if path.name == DICTIONARY else found


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


def check_files(folder: Path, *names: str, remedy: str = REMEDY) -> None:
    """Raises CheckpointError if one of these files is missing."""
    for name in names:
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder / name}: missing: {remedy}")


def text_files(folder: Path) -> List[Path]:
    """The files that say how to split text, as far as they are there; ``prepare.json`` names those of its way."""
    names = ["prepare.json", "bpecodes", "sentencepiece.bpe.model", "source.spm", "target.spm"]
    names += ["vocab.txt", "vocab.json", "tokenizer_config.json"]
    names += sorted(path.name for path in folder.glob("vocabulary.*"))
    named = hub.prepared(str(folder)).get("sha256")
    for name in named if isinstance(named, dict) else ():
        if not re.match(r"dict\.|(train|valid|test\d*)\.", name) and Path(name).name == name:  # a file of this folder
            names.append(name)
    return [folder / name for name in dict.fromkeys(names) if (folder / name).is_file()]


def load_model(folder: Path, checkpoint: str = CHECKPOINT) -> Any:
    """The model of a checkpoint with its dictionaries beside it, in eval mode on the CPU.

    They are ``dict.LANG.txt`` of a translation model, and ``dict.txt`` of a language model. A fine-tuned model comes
    without its heads.

    Raises:
        CheckpointError: a file is missing or cannot be used, or files do not belong together.
        ValueError: fairseq does not take the name of the folder.
    """
    hub.check_name(folder)
    state, task = _load(folder / checkpoint), None
    options, data = task_options(state), {"data": str(folder)}
    name = options.get("task", options.get("_name"))
    if name in (*MASKED, "language_modeling"):
        dictionary = _dictionary(folder, state, name in MASKED)
        if name in FINE_TUNED:  # its task would read dictionaries of its own
            task = MaskedLMTask(MaskedLMConfig(), dictionary)
    elif multilingual.is_multilingual(options):  # the parameters are the same in all directions
        langs = multilingual.languages(options)
        pair = (multilingual.pairs(options) or [(langs[0], langs[-1])])[0]
        data.update(overrides(folder, _direction(folder, state, *pair)))
    else:
        data.update(overrides(folder, _direction(folder, state)))
    path = str(folder / checkpoint)
    try:
        (model,), _, _ = checkpoint_utils.load_model_ensemble_and_task([path], data, task)
    except (MemoryError, OSError):
        raise
    except DictionaryError as error:
        raise CheckpointError(str(error)) from error
    except Exception as error:  # odd options fail anywhere in fairseq; PyTorch's RuntimeError is of names and shapes
        wrong = "and its parameters do not fit" if isinstance(error, RuntimeError) else "make no model"
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise CheckpointError(f"{path}: its options {wrong} ({reason})") from error
    return model.eval()


def _dictionary(folder: Path, state: Dict[str, Any], masked: bool) -> Dictionary:
    """The dictionary of a language model."""
    path, remedy = folder / DICTIONARY, "copy it from the folder of the binarised data"
    check_files(folder, DICTIONARY, remedy=remedy)
    dictionary = read_dictionary(path, remedy)
    if masked:
        dictionary.add_symbol("<mask>")  # as the task does
    tables = [value for name, value in state["model"].items() if name.endswith("embed_tokens.weight")]
    if tables and len(dictionary) != len(tables[0]):
        types = f"{len(dictionary)} types with fairseq's own, the model {len(tables[0])}"
        raise CheckpointError(f"{path} has {types}: {remedy}")
    return dictionary


def task_options(state: Dict[str, Any]) -> Dict[str, Any]:
    """The task's options in a loaded checkpoint, in an old one among all others; none of an odd one."""
    return _entries(entry(state.get("cfg"), "task")) or _entries(state.get("args"))


def _entries(settings: Any) -> Dict[str, Any]:
    """The entries of settings, which fairseq stores as a dictionary or as a namespace; none of anything else."""
    return settings if isinstance(settings, dict) else getattr(settings, "__dict__", {})
