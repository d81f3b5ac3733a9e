"""Reads ``prepare.json``, which says how text was prepared: in a folder of data, and in a model folder."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Dict, Iterable, List, Literal, Tuple

import msgspec

from .command import Failure
from .files import read_as, sha256
from .steps import stamp_path

NAME = "prepare.json"
RAW = re.compile(r"(train|valid|test\d*)\.")
"""The beginning of the names of raw text."""


class Prepared(msgspec.Struct, frozen=True):
    """How text was prepared: the entries of ``prepare.json`` that are read."""

    source: str = ""
    target: str = ""
    """The languages; empty if the file is older and does not name them. Text has one."""
    subwords: str = "bpe"
    """How words were split, and joined again: one of :data:`.text.TEXTS`."""
    hyphens: Literal["split", "kept"] = "split"
    """Whether words were split at hyphens."""
    vocabulary_threshold: int = 0
    """Subwords that are rarer than this on their side of the training set were split; 0: none."""
    sha256: Dict[str, str] = {}
    """The hash of each file, by its name."""
    file_sizes: Dict[str, int] = {}
    """The bytes of each file in ``bin``; none if the file is older."""
    sets: Dict[str, str] = {}
    """The user's name of each set, by fairseq's: ``{"test1": "news"}``."""
    kind: Literal["pairs", "text"] = "pairs"
    """Whether it is text for language models, or pairs for translation."""
    document_tokens: int = 0
    """The subwords of the largest training block of a document; 0: the text has no documents."""
    cleaned: Any = None
    """What ``scripts/prepare.sh`` says of its own splitting and cleaning, and nobody of data that a user binarised."""

    @property
    def is_text(self) -> bool:
        return self.kind == "text"

    @property
    def from_text(self) -> bool:
        """Whether ``scripts/prepare.sh`` split the text, and not the user."""
        return self.is_text or self.cleaned is not None

    @property
    def split_by(self) -> List[str]:
        """The names of the files that say how to split text; none if the user gave none for data of their own."""
        return [name for name in self.sha256 if not (name.startswith("dict.") or RAW.match(name))]

    def title(self, subset: str) -> str:
        """The name of a set in tables: the user's, if it is clear."""
        name = self.sets.get(subset, "")
        return name if list(self.sets.values()).count(name) == 1 else subset

    def check(self, files: Iterable[Path], remedy: str) -> None:
        """Raises Failure if a file does not have its hash; files without a hash pass."""
        for file in files:
            digest = sha256(file)
            if self.sha256.get(file.name, digest) != digest:
                raise Failure(f"{file} is damaged: its SHA-256 is not that in {NAME}: {remedy}")

    def check_folder(self, folder: Path, remedy: str) -> None:
        """Raises Failure if a file of a model folder is damaged; text of the user's may lie there under any name."""
        own = [file for file in folder.iterdir() if file.name in self.sha256 and not RAW.match(file.name)]
        self.check(own, remedy)

    def damaged(self, data: Path) -> List[Path]:
        """The binarised files that do not have their size, as in a copy that was interrupted."""
        paths = {data / "bin" / name: size for name, size in self.file_sizes.items()}
        return [path for path, size in paths.items() if not path.is_file() or path.stat().st_size != size]


def forget_damaged(data: Path) -> None:
    """If a binarised file of an earlier preparation is damaged, lets all be made again."""
    with suppress(Failure):
        if read_prepared(data, "").damaged(data):
            stamp_path(data, "binarize").unlink(missing_ok=True)


def file_sizes(data: Path) -> Dict[str, int]:
    """The bytes of each file in ``bin``, for ``prepare.json``."""
    return {path.name: path.stat().st_size for path in sorted((data / "bin").iterdir())}


def read_prepared(folder: Path, remedy: str) -> Prepared:
    """The content of ``prepare.json``; without that file, the defaults of ``scripts/prepare.sh``."""
    path = folder / NAME
    return read_as(path, Prepared, remedy, strict=False) if path.is_file() else Prepared()


def one_dictionary(data: Path) -> bool:
    """Whether all languages of prepared data have the same dictionary; True before the data are prepared."""
    return len({sha256(path) for path in data.glob("bin/dict.*.txt")}) < 2


def read_languages(data: Path, is_text: bool = False) -> Tuple[str, str]:
    """Source and target language of prepared data; of text its language, twice.

    Args:
        is_text: whether it must be text for language models, and not pairs.
    """
    script = f"scripts/{'prepare_text.sh' if is_text else 'prepare.sh'} --out {data}"
    prepared = read_prepared(data, f"run {script} again")
    if is_text and not prepared.is_text:
        if (data / NAME).is_file():
            other = "scripts/prepare_text.sh --out ANOTHER"
            raise Failure(f"{data} has pairs for translation, and language models need text: run {other} first")
        raise Failure(f"{data} has no prepared data: run {script} first")
    if prepared.is_text and not is_text:
        raise Failure(f"{data} has text for language models, not pairs for translation: see docs/language-models.md")
    for path in prepared.damaged(data):
        raise Failure(f"{path} is missing or not whole: copy the data again, or run {script} again")
    if prepared.source and prepared.target:
        return prepared.source, prepared.target
    if (data.parent / NAME).is_file() and data.name == "bin":
        raise Failure(f"{data} is a part of prepared data: give {data.parent}")
    if any(data.glob("dict.*.txt")):
        raise Failure(
            f"{data} is a folder of fairseq-preprocess: run scripts/prepare.sh --binarized {data} --out DATA, and give "
            "DATA here"
        )
    raise Failure(f"{data} has no prepared data: run {script} first")
