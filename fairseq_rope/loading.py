"""Compares a model with the checkpoint that it loads: its position encodings, and the words of its dictionaries.

Many encodings have the same parameters, or none, and many dictionaries the same size; fairseq compares names and shapes
alone. FSDP is not covered.
"""

import hashlib
import logging
from collections import OrderedDict
from pathlib import Path
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence

from fairseq.data import Dictionary
from fairseq.distributed.utils import get_global_rank
from torch import Tensor

from .fields import keep
from .options import SIDES, Encodings, changes, encodings_of
from .products import accelerate
from .training.dropout import replace_dropout
from .training.freezing import freeze

logger = logging.getLogger(__name__)

FORMER_FLAG = "no_token_positional_embeddings"

TABLE = "embed_tokens.weight"
"""The end of the names of embeddings."""


class Words(NamedTuple):
    """The words of a dictionary, and where it is."""

    place: str
    digest: str  # the same for the same words in the same order


Dictionaries = Dict[str, Words]
"""By the side of the model."""


class DictionaryError(ValueError):
    """A model's dictionary is not that of the parameters."""


class Parameters(OrderedDict):
    """The parameters in a checkpoint, with what they were trained with; copies are without it."""

    encodings: Encodings = {}
    dictionaries: Dictionaries = {}

    def __reduce__(self) -> Any:  # a checkpoint that is saved again has fairseq's form
        kept = {name: value for name, value in vars(self).items() if name not in ("encodings", "dictionaries")}
        return OrderedDict, (), kept or None, None, iter(self.items())

    @classmethod
    def of(
        cls, parameters: Mapping[str, Tensor], encodings: Encodings, dictionaries: Optional[Dictionaries] = None
    ) -> "Parameters":
        """Takes the attributes over as well: PyTorch keeps the versions of modules in one (``_metadata``)."""
        made = cls(parameters)
        attributes = getattr(parameters, "__dict__", {})
        vars(made).update(attributes, encodings=encodings, dictionaries=dictionaries or {})
        return made


class PluginModel:
    """What the models of this plugin have beside fairseq's: dropout and products that are faster, parameters that may
    be frozen, and a comparison of what they were built with to what the parameters that they load were trained with."""

    encodings: Encodings = {}
    dictionaries: Dictionaries = {}

    def complete(self: Any, args: Any, cfg: Any, task: Any) -> None:
        """Makes of fairseq's model, as it was built, one of this plugin; digests of the dictionaries go into
        checkpoints.

        Args:
            args: the model's options.
            cfg: the section ``model`` of a configuration, if ``args`` were made of one.
            task: fairseq's; it names the folder of the data.
        """
        replace_dropout(self)
        accelerate(self, args)
        freeze(self, args)
        options = getattr(task, "cfg", None) or getattr(task, "args", None)
        data = str(getattr(options, "data", None) or "the data")
        stacks = {side: getattr(self, side, None) for side in SIDES}
        self.encodings = encodings_of(args)
        self.dictionaries = {
            side: Words(data, digest(stack.dictionary.symbols)) for side, stack in stacks.items() if stack is not None
        }
        args.dictionaries = {side: words.digest for side, words in self.dictionaries.items()}
        # where a configuration lacks base_layers, omegaconf 2.0 has None, which the trainer compares with 0
        keep(cfg, dictionaries=args.dictionaries, base_layers=0)

    def load_state_dict(
        self, state_dict: Any, strict: bool = True, model_cfg: Optional[Any] = None, args: Optional[Any] = None
    ) -> Any:
        """As in fairseq; it warns if the model was trained with other encodings.

        Raises:
            DictionaryError: the parameters are of other words.
        """
        changed = changes(self.encodings, getattr(state_dict, "encodings", {}))
        if changed and get_global_rank() == 0:
            logger.warning("the parameters were trained with %s", changed)
        self._check_dictionaries(state_dict)
        return super().load_state_dict(state_dict, strict, model_cfg, args)  # type: ignore[misc]

    def _check_dictionaries(self, parameters: Mapping[str, Tensor]) -> None:
        remedy = "prepare the text with the model's own (prepare.sh --like, or fairseq-preprocess --srcdict, --tgtdict)"
        for side, trained in getattr(parameters, "dictionaries", {}).items():
            own = self.dictionaries.get(side, trained)
            if own.digest != trained.digest:
                raise DictionaryError(
                    f"the {side}'s dictionary in {own.place} ({own.digest}) is not that of {trained.place} "
                    f"({trained.digest}): {remedy}"
                )
        for name, table in self.named_parameters(remove_duplicate=False):  # type: ignore[attr-defined]
            if name.endswith(TABLE) and name in parameters and len(table) != len(parameters[name]):
                side = name.split(".")[0]
                raise DictionaryError(
                    f"the {side}'s dictionary in {self.dictionaries[side].place} has {len(table)} types, that of the "
                    f"parameters {len(parameters[name])}: {remedy}"
                )


def digest(symbols: Sequence[str]) -> str:
    """The number of a dictionary's types and a part of the SHA-256 of all, in their order, as checkpoints have it."""
    words = "\n".join(symbols).encode("utf-8", "surrogatepass")
    return f"{len(symbols)} types, SHA-256 {hashlib.sha256(words).hexdigest()[:12]}"


def dictionary_of(types: int) -> Dictionary:
    """A dictionary of which only the length is looked at."""
    dictionary = Dictionary()
    dictionary.symbols += [""] * (types - len(dictionary))
    return dictionary


def dictionaries_of(state: Dict[str, Any], path: Path) -> Dictionaries:
    """The dictionaries with which a model was trained, as far as they are known.

    They are in its configuration. If that is of an earlier version, or of fairseq's own model, they may be beside the
    file ``path``, as in a model folder, or in the folder of the data that the training names.
    """
    cfg = configuration_in(state)
    kept = entry(cfg, "dictionaries")
    if kept:
        return {side: Words(str(path), kept[side]) for side in kept}
    names = [name for name in state["model"] if name.endswith(TABLE)]
    tables = {side: [name for name in names if name.startswith(side)] for side in SIDES}
    found, sides = {}, [side for side in SIDES if tables[side]]
    task = entry(state.get("cfg"), "task") or state.get("args")
    folders = [path.parent, Path(str(entry(task, "data") or path.parent).split(":")[0])]
    for side, option in zip(SIDES, ("source_lang", "target_lang")):
        name = f"dict.{entry(task, option)}.txt" if len(sides) > 1 else "dict.txt"
        file = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if side in sides and file:
            try:
                dictionary = Dictionary.load(str(file))
            except Exception:  # it is of another kind of model, or nobody may read it
                continue
            if sides == ["encoder"]:
                dictionary.add_symbol("<mask>")  # as the tasks of masked models do
            if len(dictionary) == len(state["model"][tables[side][0]]):
                found[side] = Words(str(file), digest(dictionary.symbols))
    return found


def entry(settings: Any, name: str) -> Any:
    """One of settings, which fairseq stores as a dictionary, as a namespace, or as omegaconf's; None without it."""
    return settings.get(name) if isinstance(settings, dict) else getattr(settings, name, None)


def forget_former_flag(cfg: Any) -> None:
    """Changes the configuration in a checkpoint of an earlier version, whose architectures set a flag of fairseq.

    Now they refuse that flag, which would be the user's own.
    """
    if encodings_of(cfg) and getattr(cfg, FORMER_FLAG, False):
        setattr(cfg, FORMER_FLAG, False)


def configuration_in(state: Dict[str, Any]) -> Any:
    """The model's configuration in a checkpoint, as it is stored; None if there is none."""
    return state["args"] if state.get("args") is not None else (state.get("cfg") or {}).get("model")
