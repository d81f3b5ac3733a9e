"""Recipes: what to prepare, how to train, what to score; in TOML files.

Their tables are merged key by key along ``extends``. [prepare] and [train] hold options of ``scripts/prepare.sh`` and
flags of ``fairseq-train`` without their dashes. A recipe shares the data of the one that it extends, unless it changes
[data] or [prepare]. One that names no text consists of hyper-parameters: it is for data that are prepared already.
"""

import sys
from pathlib import Path
from typing import Annotated, Any, Dict, List, Mapping, Optional, Tuple, Union

import msgspec

from .command import Failure
from .paths import ROOT, SCRIPTS
from .tasks import TASKS, Task

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = SCRIPTS / "recipes"
BATCH = ("max-tokens", "update-freq", "batch-size", "max-sentences")
"""Flags of fairseq-train that choose the batch by hand."""

OWN = ("target-tokens", "bf16-on-gpu")
"""The entries of [train] that are no flags: the target tokens of an update on all devices together, from which the
batch follows, and whether to train in bfloat16 on GPUs that compute in it."""

Value = Union[bool, str, int, List[Union[str, int]]]
"""Of an option: ``true`` for one without a value, ``false`` to leave out an inherited one; a list is a tuple of Python.
Decimal numbers are kept as the recipe writes them."""

Count = Annotated[int, msgspec.Meta(ge=1)]


class Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The raw text."""

    train: str = ""
    valid: str = ""
    tests: List[str] = []
    """Names without the language: ``train`` stands for ``train.en`` and ``train.de``. All or none."""
    folder: str = ""
    """Where it is: a folder in ``data/``, or beside a recipe that is elsewhere; empty: that of the recipe."""
    source: str = "en"
    target: str = "de"
    download: bool = False
    """Whether ``scripts/download.sh`` fetches the text."""
    join: List[Count] = []
    """For each number, a further test set joins that many sentences of the first test set to one."""


class Score(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to evaluate a training."""

    average: Count = 5
    """How many checkpoints to average."""
    beam: Optional[Count] = None
    lenpen: Union[str, int, None] = None
    """Of the search; none for language models."""

    @property
    def search(self) -> List[str]:
        """Options of ``scripts/score.sh``."""
        return ["--beam", str(self.beam), "--lenpen", str(self.lenpen)] if self.beam else []

    @property
    def settings(self) -> List[str]:
        """The same, as the first settings of a score."""
        return [f"beam {self.beam}", f"lenpen {self.lenpen}"] if self.beam else []


class Grid(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of a fine-tuning: each learning rate is tried with each seed."""

    lr: List[Union[str, int]]
    seed: List[int]


class Tables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file says, merged with what it extends."""

    archs: List[str] = []
    """The architectures to train when the user names none."""
    start: str = msgspec.field(name="from", default="")
    """``RECIPE/ARCH``: trainings begin with the average of that training with the same seed, on the same data. A
    recipe's path is relative to the file that names it."""
    data: Data = Data()
    prepare: Dict[str, Value] = {}
    train: Dict[str, Value] = {}
    score: Score = Score()
    grid: Optional[Grid] = None


class Recipe(Tables, frozen=True):
    """A recipe."""

    name: str = ""
    option: str = ""
    """What ``--recipe`` calls it: its name in ``scripts/recipes``, or its path."""
    shares: str = ""
    """The recipe whose data this one has: mostly its own name; empty if it has none."""
    raw: Path = Path()
    """The folder of the raw text: ``data/NAME`` in the project, or that of a recipe that is elsewhere."""

    @property
    def task(self) -> Task:
        return TASKS[str(self.train.get("task", "translation"))]

    @property
    def flags(self) -> Dict[str, List[str]]:
        """Flags of fairseq-train, to the words that follow them."""
        return _flags({key: value for key, value in self.train.items() if key not in OWN})

    @property
    def prepare_options(self) -> List[str]:
        return [word for name, words in _flags(self.prepare).items() for word in (name, *words)]


def _flags(values: Mapping[str, Value]) -> Dict[str, List[str]]:
    """Options with their dashes, to the words behind each."""
    flags: Dict[str, List[str]] = {}
    for key, value in values.items():
        if isinstance(value, list):
            flags[f"--{key}"] = [f"({', '.join(map(str, value))}{',' * (len(value) == 1)})"]
        elif value is not False:
            flags[f"--{key}"] = [] if value is True else [str(value)]
    return flags


def recipe_names() -> List[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_recipe(option: str) -> Recipe:
    """Reads a recipe.

    Args:
        option: the name of a file in ``scripts/recipes``, or the path of any other; a path ends in ``.toml``.
    """
    path = _find(option, Path())
    merged, owner = _merged(path)
    tables = msgspec.convert(merged, Tables)
    if tables.train.get("task", "translation") not in TASKS:
        raise Failure(f"{path}: unknown 'task' {tables.train['task']!a}; there are: {' '.join(TASKS)}")
    if "optimizer" not in tables.train:
        raise Failure(f"{path}: [train] has no optimizer: extend {', '.join(TASKS)}, or a recipe that does")
    named = [key for key in ("train", "valid", "tests") if not getattr(tables.data, key)]
    if len(named) in (1, 2):
        raise Failure(f"{path}: [data] has no '{named[0]}'")
    folder, shares = tables.data.folder, "" if named else owner.stem
    if tables.start:
        name, _, arch = tables.start.rpartition("/")
        if not name or _merged(first := _find(name, path.parent))[1] != owner:
            raise Failure(f"{path}: 'from' is RECIPE/ARCH, and that recipe must share the data of this one")
        tables = msgspec.structs.replace(tables, start=f"{_option(first)}/{arch}")
    return Recipe(
        **msgspec.structs.asdict(tables),
        name=path.stem,
        option=_option(path),
        shares=shares,
        raw=ROOT / "data" / (folder or owner.stem) if owner.parent == FOLDER else owner.parent / folder,
    )


def _option(path: Path) -> str:
    """What ``--recipe`` calls a file."""
    return path.stem if path.parent == FOLDER else str(path)


def _find(option: str, folder: Path) -> Path:
    """The file of a recipe; a relative path starts at ``folder``."""
    if not option.endswith(".toml"):
        if option not in recipe_names():
            raise Failure(
                f"unknown recipe {option!r}; there are: {' '.join(recipe_names())}; the path of another ends in .toml"
            )
        return FOLDER / f"{option}.toml"
    path = folder / option
    if not path.is_file():
        raise Failure(f"{path}: there is no such recipe")
    path = path.resolve()
    if path.parent != FOLDER and path.stem in recipe_names():
        raise Failure(f"{path}: rename the recipe: one in scripts/recipes has this name, and result files have it, too")
    return path


def _merged(path: Path) -> Tuple[Dict[str, Any], Path]:
    """The tables in a file, merged with those that it extends, and the file whose data it shares."""
    try:
        own = tomllib.loads(path.read_text(encoding="utf-8"), parse_float=str)
        extends = own.pop("extends", None)
        base, owner = _merged(_find(str(extends), path.parent)) if extends else ({}, path)
        both = [key for key in base if isinstance(base[key], dict) and isinstance(own.get(key), dict)]
        msgspec.convert({**base, **own, **{key: {**base[key], **own[key]} for key in both}}, Tables)
    except ValueError as error:  # of TOML, UTF-8 or msgspec
        raise Failure(f"{path}: {error}: see docs/own-data.md") from None
    _choose_batch(path, own.get("train", {}), base.get("train", {}))
    merged = {**base, **own, **{key: {**base[key], **own[key]} for key in both}}
    return merged, owner if _data_of(merged) == _data_of(base) else path


def _data_of(merged: Mapping[str, Any]) -> Tuple[Data, Mapping[str, Value], bool]:
    """What recipes that share their data have in common: the text, how it is prepared, and whether it has no pairs."""
    tables = msgspec.convert(merged, Tables)
    task = TASKS.get(str(tables.train.get("task", "translation")))
    return tables.data, tables.prepare, task is not None and task.is_text


def _choose_batch(path: Path, own: Mapping[str, Value], base: Dict[str, Value]) -> None:
    """Drops the inherited way to choose a batch if the recipe has another; raises Failure if it has both."""
    by_hand = [key for key in BATCH if key in own]
    if by_hand and "target-tokens" in own:
        raise Failure(f"{path}: 'target-tokens' and '{by_hand[0]}' both choose the batch: leave one out")
    for key in ("target-tokens",) if by_hand else BATCH if "target-tokens" in own else ():
        base.pop(key, None)
