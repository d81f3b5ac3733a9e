"""What Hugging Face's folders have in common: ``config.json``, and the model folder that one becomes here."""

import json
from pathlib import Path
from typing import Any, Dict, List, Mapping, Tuple

from fairseq import options
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from omegaconf import OmegaConf
from torch import Tensor

from ..files import CheckpointError, save_checkpoint
from ..model_folder import CHECKPOINT

CONFIG = "config.json"
MEMORY = "hugging_face"
"""The entry of a converted checkpoint that serves the way back: config.json, and tensors that have no place here."""

DTYPES = ("dtype", "torch_dtype")
"""The entry of config.json with the number format of the weights, and its name before transformers 4.56."""

TOKENIZER = "give the model's folder with its tokenizer"
"""The remedy where a file is missing."""

Entries = Mapping[str, Tuple[str, Any]]
"""An option of the model here, to its entry in config.json and the library's default."""


def read_object(path: Path) -> Dict[str, Any]:
    """The object in a JSON file.

    Raises:
        CheckpointError: there is no such file, or it holds something else.
    """
    if not path.is_file():
        raise CheckpointError(f"{path}: missing: give a folder that transformers' save_pretrained wrote")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CheckpointError(f"{path}: not JSON ({str(error)[:100]}): fetch it again") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: not an object of JSON: fetch it again")
    return value


def write_object(path: Path, value: Dict[str, Any]) -> None:
    """Writes a JSON file."""
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


def write_config(folder: Path, config: Dict[str, Any]) -> None:
    """Writes ``config.json`` without the number format of the weights as they once were: the library sees it itself."""
    write_object(folder / CONFIG, {name: value for name, value in config.items() if name not in DTYPES})


class Values:
    """Values of ``config.json`` by name, checked."""

    def __init__(self, folder: Path) -> None:
        self.path, self.given = folder / CONFIG, read_object(folder / CONFIG)

    def error(self, name: str, rule: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: {name} is {ascii(self.given.get(name))[:60]}: it {rule}")

    def whole(self, name: str, default: int, least: int = 1) -> int:
        value = self.given.get(name)
        value = default if value is None else value
        if type(value) is not int or value < least:
            raise self.error(name, f"must be a whole number of at least {least}")
        return value

    def switch(self, name: str, default: bool) -> bool:
        value = self.given.get(name, default)
        if not isinstance(value, bool):
            raise self.error(name, "must be true or false")
        return value

    def fraction(self, name: str, default: float) -> float:
        value = self.given.get(name, default)
        if type(value) not in (int, float) or not 0 <= value < 1:
            raise self.error(name, "must be a number of at least 0 and below 1")
        return float(value)

    def chosen(self, name: str, default: str, choices: Mapping[str, str]) -> str:
        """What ``choices`` has for the value."""
        value = self.given.get(name, default)
        if value not in choices:
            raise self.error(name, f"must be one of {', '.join(choices)}")
        return choices[value]

    def flags(self, numbers: Entries, fractions: Entries) -> List[str]:
        """The words of a command line of ``fairseq-train`` that set these options."""
        found = {option: self.whole(*entry) for option, entry in numbers.items()}
        shares = {option: self.fraction(*entry) for option, entry in fractions.items()}
        return [f"--{option.replace('_', '-')}={value}" for option, value in {**found, **shares}.items()]


def entries_of(cfg: Any, *tables: Entries) -> Dict[str, Any]:
    """The entries of config.json for the options ``cfg`` of a model; the reverse of :meth:`Values.flags`."""
    return {entry: getattr(cfg, option) for table in tables for option, (entry, _) in table.items()}


def training(*words: str) -> Any:
    """fairseq's configuration of a training with these words of a command line."""
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), [".", *words]))


def save_run(
    made: Path, dictionaries: Mapping[str, Dictionary], cfg: Any, model: Mapping[str, Tensor], memory: Dict[str, Any]
) -> None:
    """Writes dictionaries and checkpoint of the model folder ``made``, as before the first update of a training.

    Args:
        dictionaries: by the names of their files.
        cfg: the result of :func:`training`.
        memory: for the way back.
    """
    for name, words in dictionaries.items():
        words.save(str(made / name))
    history = {"optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "num_updates": 0}
    state = {"optimizer_history": [history], "extra_state": {"train_iterator": {"epoch": 1}}}
    save_checkpoint({**state, "cfg": OmegaConf.to_container(cfg), "model": model, MEMORY: memory}, made / CHECKPOINT)


def place_of(run: Path) -> Tuple[Path, Path]:
    """The checkpoint and the folder of ``run``, a model folder or one of its checkpoints."""
    return (run / CHECKPOINT, run) if run.is_dir() else (run, run.parent)
