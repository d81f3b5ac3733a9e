"""Recipes: what to prepare, how to train, and what to average and score; one small TOML file each.

A recipe that ``extends`` another takes its entries, and shares its data unless it names others. A recipe that names no
text consists of hyper-parameters: it is for data that are prepared already.
"""

import re
import shlex
import sys
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from .command import MOST, Failure
from .languages import RULE, is_language
from .paths import ROOT, SCRIPTS
from .tasks import TASKS, Task

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = SCRIPTS / "recipes"
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
LARGEST = 1 << 16
"""The size of the largest file that is read as a recipe, in bytes."""

TEXT = ("train", "valid", "tests")
CHOSEN = (
    *("--train", "--valid", "--test", "--source", "--target", "--language", "--out", "--hold-out"),
    *("--binarized", "--codes", "--help", "-h"),
)
"""Options of the scripts that prepare: the recipe's other entries choose them, or the user of ``reproduce.sh``."""
DATA = (*TEXT, "folder", "source", "target", "download", "join", "prepare")
"""Entries that determine the prepared data."""
OWN = {
    "translation": ("source", "target", "download", "join", "target_tokens"),
    "a training from the start": ("prepare", "max_update", "save_every", "average", "bf16"),
    "fine-tuning": ("learning_rates", "seeds", "epochs", "batch"),
}
"""Entries that not every task has, by what they are for."""

IN_WORDS: Dict[Any, str] = {
    **{str: "text", int: "a whole number", bool: "true or false"},
    **{List[str]: "a list of texts", List[int]: "a list of whole numbers", List[float]: "a list of decimal numbers"},
}
"""What the type of an entry is for the writer of a recipe."""

BATCH = ("--max-tokens", "--update-freq", "--batch-size", "--max-sentences")
"""Flags of fairseq-train that choose the batch by hand."""


@dataclass(frozen=True)
class Recipe:
    """The entries of a recipe file."""

    name: str
    task: str = "translation"
    """What models are trained for: a key of :data:`.tasks.TASKS`."""
    train: str = ""
    valid: str = ""
    tests: List[str] = field(default_factory=list)
    """Names of the raw text, without the language: ``train`` stands for ``train.en`` and ``train.de``. All or none."""
    folder: str = ""
    """Where the raw text is: a folder in ``data/``, or beside a recipe that is elsewhere; empty: that of the recipe."""
    source: str = "en"
    target: str = "de"
    download: bool = False
    """Whether ``scripts/download.sh`` fetches the text."""
    join: List[int] = field(default_factory=list)
    """For each number, a further test set joins that many sentences of the first test set to one."""
    prepare: str = ""
    """Options of ``scripts/prepare.sh``, or of ``scripts/prepare_text.sh``."""
    flags: str = ""
    """Flags of ``fairseq-train``, which follow those of ``scripts/train.sh``."""
    max_update: int = 100000
    save_every: int = 1500
    target_tokens: Optional[int] = None
    bf16: bool = False
    """Whether to train in bfloat16 on GPUs that compute in it."""
    average: int = 5
    """How many checkpoints to average."""
    archs: List[str] = field(default_factory=list)
    """The architectures to train when the user names none."""
    learning_rates: List[float] = field(default_factory=list)
    seeds: List[int] = field(default_factory=list)
    """Those of a fine-tuning: each rate is tried with each seed."""
    epochs: int = 10
    batch: int = 32
    """Epochs of a fine-tuning, and examples of an update."""
    data: str = ""
    """The recipe whose data this one shares: its own name, unless it extends one and names no other data."""
    raw: Path = Path()
    """The path of the raw text: ``data/NAME`` in the project, or the folder of a recipe that is elsewhere."""
    option: str = ""
    """What ``--recipe`` calls it: its name in ``scripts/recipes``, or its path."""

    @property
    def kind(self) -> Task:
        return TASKS[self.task]

    @property
    def train_flags(self) -> List[str]:
        return shlex.split(self.flags)

    @property
    def prepare_options(self) -> List[str]:
        return shlex.split(self.prepare)


def names_batch(flags: Sequence[str]) -> bool:
    """Whether the flags choose the batch by hand."""
    return any(flag.split("=")[0] in BATCH for flag in flags)


def recipe_names() -> List[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_recipe(option: str) -> Recipe:
    """Reads a recipe.

    Args:
        option: the name of a file in ``scripts/recipes``, or the path of any other; a path ends in ``.toml``.

    Raises:
        Failure: there is no such recipe, or its file is wrong; the message names the entry.
    """
    return _load(_find(option, Path()), ())


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
    path, bundled = path.resolve(), FOLDER / path.name
    if not NAME.fullmatch(path.stem):
        raise Failure(
            f"{path}: rename the recipe: its name goes into other names, so it is letters, digits, '_', '.' and '-'"
        )
    if bundled.is_file() and not bundled.samefile(path):
        raise Failure(f"{path}: rename the recipe: there is one of this name in scripts/recipes")
    return path


def _load(path: Path, extending: Tuple[Path, ...]) -> Recipe:
    """Reads the recipe in a file, which the recipes in ``extending`` extend."""
    entries, bundled = _read(path), path.parent.samefile(FOLDER)
    base: Dict[str, Any] = {key: value for key, value in vars(Recipe("")).items() if key in (*DATA, "task")}
    if "extends" in entries:
        other = entries.pop("extends")
        _check(path, "extends", other, str)
        file = _find(other, path.parent)
        if file in (path, *extending):
            raise Failure(f"{path}: extends itself")
        base = dict(vars(_load(file, (path, *extending))))
    known = {entry.name: entry.type for entry in fields(Recipe) if entry.name not in ("name", "data", "raw", "option")}
    for key, value in entries.items():
        if key not in known:
            raise Failure(f"{path}: unknown entry {key!r:.80}; there are: {' '.join(known)}")
        _check(path, key, value, known[key])
    _check_task(path, {**base, **entries})
    other_kind = TASKS[entries.get("task", base["task"])].is_text != TASKS[base["task"]].is_text
    if other_kind or any(entries.get(key, base[key]) != base[key] for key in DATA):
        folder = entries.get("folder", base["folder"])
        raw = ROOT / "data" / (folder or path.stem) if bundled else path.parent / folder
        base.update(data=path.stem, raw=raw)
    recipe = Recipe(**{**base, **entries, "name": path.stem, "option": path.stem if bundled else str(path)})
    _check_values(path, recipe)
    if recipe.target_tokens and names_batch(recipe.train_flags):
        if "target_tokens" in entries:
            raise Failure(f"{path}: 'target_tokens' and 'flags' both choose the batch: leave one out")
        recipe = replace(recipe, target_tokens=None)
    return recipe


def _read(path: Path) -> Dict[str, Any]:
    if path.stat().st_size > LARGEST:
        raise Failure(f"{path}: larger than {LARGEST} bytes: is it a recipe?")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise Failure(f"{path}: not TOML: {error}") from None


def _check_task(path: Path, entries: Dict[str, Any]) -> None:
    """Raises Failure for an unknown task, and for entries that it does not have."""
    default = vars(Recipe(""))
    task = entries.get("task", default["task"])
    if not isinstance(task, str) or task not in TASKS:
        raise Failure(f"{path}: unknown 'task' {task!r:.80}; there are: {' '.join(TASKS)}")
    is_tuned = TASKS[task].trained_by != "train.sh"
    for (purpose, keys), applies in zip(OWN.items(), (not TASKS[task].is_text, not is_tuned, is_tuned)):
        for key in () if applies else keys:
            if entries.get(key, default[key]) != default[key]:
                raise Failure(f"{path}: '{key}' is for {purpose}, and 'task' is {task}: leave it out")


def _check_values(path: Path, recipe: Recipe) -> None:
    """Raises Failure for an entry that has the right type and cannot be used."""
    for key in ("flags", "prepare"):
        try:
            shlex.split(getattr(recipe, key))
        except ValueError as error:
            raise Failure(f"{path}: '{key}' cannot be split into words: {error}") from None
    for word in recipe.prepare_options:
        if word.split("=")[0] in CHOSEN:
            raise Failure(f"{path}: 'prepare' has {word!a:.80}, which is not for a recipe to choose: leave it out")
    for key in ("max_update", "save_every", "average", "target_tokens", "epochs", "batch"):
        if getattr(recipe, key) is not None and not 1 <= getattr(recipe, key) <= MOST:
            raise Failure(f"{path}: '{key}' must be a number from 1 to {MOST:,}")
    for key in ("source", "target"):
        if not is_language(getattr(recipe, key)):
            raise Failure(f"{path}: '{key}' must be a language code ({RULE}), not {getattr(recipe, key)!a}")
    for key in ("train", "valid", "tests", "folder", "archs"):
        value = getattr(recipe, key)
        for text in [value] if isinstance(value, str) else value:
            if not text.isprintable():
                raise Failure(f"{path}: '{key}' has a character that cannot be printed: {text!r:.80}")
    for key in ("learning_rates", "seeds"):
        numbers = getattr(recipe, key)
        if recipe.kind.trained_by != "train.sh" and not numbers:
            raise Failure(f"{path}: '{key}' is missing")
        if len(set(numbers)) < len(numbers) or any(not 0 <= number < float("inf") for number in numbers):
            raise Failure(f"{path}: '{key}' must be different numbers, none below 0, not {numbers}")
    if len(set(recipe.tests)) < len(recipe.tests):
        raise Failure(f"{path}: 'tests' names a test set twice: name it once")
    named = [key for key in TEXT if getattr(recipe, key)]
    for key in (*TEXT, "archs"):
        if named and not getattr(recipe, key):
            raise Failure(f"{path}: '{key}' is missing")


def _check(path: Path, key: str, value: Any, expected: Any) -> None:
    """Raises Failure unless ``value`` has the type of the entry ``key``."""
    item = {List[str]: str, List[int]: int, List[float]: float}.get(expected)
    kind = list if item else {Optional[int]: int}.get(expected, expected)
    # a bool is an int for Python, not for a reader
    right = type(value) is kind and (item is None or all(type(entry) is item for entry in value))
    if not right:
        raise Failure(f"{path}: '{key}' must be {IN_WORDS[expected if item else kind]}, not {value!r:.80}")
