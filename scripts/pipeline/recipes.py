"""Recipes: what to prepare, how to train, and what to average and score; one small TOML file each.

A recipe that ``extends`` another takes its entries, and its data.
"""

import shlex
import sys
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from .command import Failure
from .languages import RULE, is_language

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent.parent / "recipes"


@dataclass(frozen=True)
class Recipe:
    """The entries of a recipe file; all but the text files and the architectures have a default."""

    name: str
    train: str = ""
    valid: str = ""
    tests: List[str] = field(default_factory=list)
    """Names of the raw text, without the language: ``train`` stands for ``train.en`` and ``train.de``."""
    source: str = "en"
    target: str = "de"
    download: bool = False
    """Whether ``scripts/download.sh`` fetches the text."""
    join: List[int] = field(default_factory=list)
    """For each number, a further test set joins that many sentences of the first test set to one."""
    prepare: str = ""
    """Options of ``scripts/prepare.sh``."""
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
    data: str = ""
    """The recipe whose data this one shares; its own name if it extends none."""

    @property
    def train_flags(self) -> List[str]:
        return shlex.split(self.flags)

    @property
    def prepare_options(self) -> List[str]:
        return shlex.split(self.prepare)


def recipe_names() -> List[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_recipe(name: str, extending: Tuple[str, ...] = ()) -> Recipe:
    """Reads the recipe of this name.

    Args:
        extending: the recipes that extend it.

    Raises:
        Failure: there is no such recipe, or its file is wrong; the message names the entry.
    """
    if name not in recipe_names():
        raise Failure(f"unknown recipe '{name}'; there are: {' '.join(recipe_names())}")
    path = FOLDER / f"{name}.toml"
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise Failure(f"{path}: not TOML: {error}") from None
    base: Dict[str, Any] = {"data": name}
    if "extends" in entries:
        other = entries.pop("extends")
        if other in (name, *extending):
            raise Failure(f"{path}: extends itself")
        base = dict(vars(load_recipe(other, (name, *extending))))
    known = {entry.name: entry.type for entry in fields(Recipe) if entry.name not in ("name", "data")}
    for key, value in entries.items():
        if key not in known:
            raise Failure(f"{path}: unknown entry '{key}'; there are: {' '.join(known)}")
        _check(path, key, value, known[key])
    recipe = Recipe(**{**base, **entries, "name": name})
    for key in ("flags", "prepare"):
        try:
            shlex.split(getattr(recipe, key))
        except ValueError as error:
            raise Failure(f"{path}: '{key}' cannot be split into words: {error}") from None
    for key in ("max_update", "save_every", "average", "target_tokens"):
        if getattr(recipe, key) is not None and getattr(recipe, key) < 1:
            raise Failure(f"{path}: '{key}' must be at least 1")
    for key in ("source", "target"):
        if not is_language(getattr(recipe, key)):
            raise Failure(f"{path}: '{key}' must be a language code ({RULE}), not {getattr(recipe, key)!a}")
    for key in ("train", "valid", "tests", "archs"):
        if not getattr(recipe, key):
            raise Failure(f"{path}: '{key}' is missing")
    return recipe


def _check(path: Path, key: str, value: Any, expected: Any) -> None:
    """Raises Failure unless ``value`` has the type of the entry ``key``."""
    item = {List[str]: str, List[int]: int}.get(expected)
    kind = list if item else {Optional[int]: int}.get(expected, expected)
    # a bool is an int for Python, not for a reader
    right = type(value) is kind and (item is None or all(type(entry) is item for entry in value))
    if not right:
        what = f"a list of {item.__name__}" if item else kind.__name__
        raise Failure(f"{path}: '{key}' must be {what}, not {value!r}")
