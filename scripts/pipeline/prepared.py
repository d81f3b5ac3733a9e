"""Reads ``prepare.json``, which says how text was prepared: in a folder of data, and in a model folder."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterable, List, Tuple

from .command import Failure
from .files import read_shaped, sha256
from .languages import RULE, is_language
from .shape import TEXT, Value

NAME = "prepare.json"
LANGUAGE = Value(f"a language code ({RULE})", is_language)
SUBWORDS = ("bpe", "sentencepiece", "none")
MODELS = {"bpe": "bpecodes", "sentencepiece": "sentencepiece.bpe.model"}
"""Kind of subwords, to the file that it was learned into: fairseq's ``from_pretrained`` finds it by this name."""

TEXT_SUBWORDS = ("bpe", "sentencepiece", "bytes")
"""Those of text for language models."""

SPLIT = Value("'bpe', 'sentencepiece', 'bytes' or 'none'", lambda value: value in (*SUBWORDS, *TEXT_SUBWORDS))
KIND = Value("'text'", lambda value: value == "text")
HYPHENS = Value("'split' or 'kept'", lambda value: value in ("split", "kept"))
DIGITS = Value("digits", lambda value: isinstance(value, str) and re.fullmatch("[0-9]{1,15}", value) is not None)
SHAPE: Dict[str, Any] = {
    **{"kind?": KIND, "source?": LANGUAGE, "target?": LANGUAGE, "subwords?": SPLIT, "hyphens?": HYPHENS},
    **{"vocabulary_threshold?": DIGITS, "sha256?": {"*": TEXT}, "sets?": {"*": TEXT}},
}


@dataclass(frozen=True)
class Prepared:
    """How text was prepared."""

    source: str = ""
    target: str = ""
    """The languages; empty if the file is older and does not name them. Text has the same twice."""
    subwords: str = "bpe"
    """How words were split, and joined again: one of :data:`SUBWORDS` or :data:`TEXT_SUBWORDS`."""
    hyphens_kept: bool = False
    """Whether words were not split at hyphens."""
    vocabulary_threshold: int = 0
    """Subwords that are rarer than this on their side of the training set were split; 0: none."""
    sha256: Dict[str, str] = field(default_factory=dict)
    """The hash of each file, by its name."""
    from_text: bool = False
    """Whether ``scripts/prepare.sh`` split the text, and not the user."""
    sets: Dict[str, str] = field(default_factory=dict)
    """The user's name of each set, by fairseq's: ``{"test1": "news"}``."""
    is_text: bool = False
    """Whether it is text for language models, not pairs for translation."""

    @property
    def split_by(self) -> List[str]:
        """The names of the files that say how to split text; none if the user gave none for data of their own."""
        vocabularies = [name for name in self.sha256 if name.startswith("vocabulary.") and "/" not in name]
        names = [MODELS[self.subwords], *vocabularies] if self.subwords in MODELS else []
        return [name for name in names if name in self.sha256] if self.sha256 else names

    def title(self, subset: str) -> str:
        """The name of a set in tables: the user's, if it is clear."""
        name = self.sets.get(subset, "")
        clear = name.isprintable() and list(self.sets.values()).count(name) == 1
        return name if name and clear else subset

    def check(self, files: Iterable[Path], remedy: str) -> None:
        """Raises Failure if a file does not have its hash; files without a hash pass."""
        for file in files:
            digest = sha256(file)
            if self.sha256.get(file.name, digest) != digest:
                raise Failure(f"{file} is damaged: its SHA-256 is not that in {NAME}: {remedy}")


def read_prepared(folder: Path, remedy: str) -> Prepared:
    """The content of ``prepare.json``; without that file, the defaults of ``scripts/prepare.sh``.

    Raises:
        Failure: it is damaged, or an entry is not what ``scripts/prepare.sh`` writes; the message names ``remedy``.
    """
    path = folder / NAME
    if not path.is_file():
        return Prepared()
    content = read_shaped(path, SHAPE, remedy)
    subwords = content.get("subwords", "bpe")
    for kind, name in MODELS.items():
        if kind != subwords and name in content.get("sha256", {}):
            raise Failure(f"{path} has {subwords!a} as 'subwords', but {name} is of '{kind}': {remedy}")
    is_text = content.get("kind") == "text"
    return Prepared(
        source=content.get("source", ""),
        target=content.get("target", ""),
        subwords=subwords,
        hyphens_kept=content.get("hyphens") == "kept",
        vocabulary_threshold=int(content.get("vocabulary_threshold", "0")),
        sha256=content.get("sha256", {}),
        from_text=is_text or "cleaned" in content,
        sets=content.get("sets", {}),
        is_text=is_text,
    )


def one_dictionary(data: Path, languages: Iterable[str]) -> bool:
    """Whether all languages of prepared data have the same dictionary; True before the data are prepared."""
    dictionaries = [data / "bin" / f"dict.{lang}.txt" for lang in languages]
    return not all(path.is_file() for path in dictionaries) or len(set(map(sha256, dictionaries))) == 1


def read_text_language(data: Path) -> Tuple[str, str]:
    """The language of prepared text, twice.

    Raises:
        Failure: there is no prepared text, or ``prepare.json`` is damaged.
    """
    remedy = f"run scripts/prepare_text.sh --out {data}"
    prepared = read_prepared(data, f"{remedy} again")
    if not prepared.is_text:
        what = "pairs for translation" if (data / NAME).is_file() else "no prepared data"
        raise Failure(f"{data} has {what}, and language models need text: {remedy} first")
    return prepared.source, prepared.target


def read_languages(data: Path) -> Tuple[str, str]:
    """Source and target language of prepared data.

    Raises:
        Failure: there are no prepared data, or ``prepare.json`` is damaged.
    """
    remedy = f"run scripts/prepare.sh --out {data} again"
    prepared = read_prepared(data, remedy)
    if prepared.is_text:
        raise Failure(f"{data} has text for language models, not pairs for translation: see docs/language-models.md")
    # train.en-de.en.idx and train.en-de.de.idx
    names = [path.name.split(".") for path in sorted((data / "bin").glob("*.*-*.*.idx"))]
    sides = {(name[1], name[2]) for name in names if len(name) == 4}
    if prepared.source and prepared.target:
        pair = f"{prepared.source}-{prepared.target}"
        if sides and not sides >= {(pair, prepared.source), (pair, prepared.target)}:
            there = " ".join(sorted({pair for pair, _ in sides}))
            raise Failure(f"{data / NAME} has the languages {pair}, and {data / 'bin'} has {there}: {remedy}")
        return prepared.source, prepared.target
    # older data do not name them elsewhere
    for pair, source in sorted(sides):
        for _, target in sorted(sides):
            if f"{source}-{target}" == pair:
                return source, target
    if (data.parent / NAME).is_file() and data.name == "bin":
        raise Failure(f"{data} is a part of prepared data: give {data.parent}")
    if any(data.glob("dict.*.txt")):
        raise Failure(
            f"{data} is a folder of fairseq-preprocess: run scripts/prepare.sh --binarized {data} --out DATA, and give "
            "DATA here"
        )
    raise Failure(f"{data} has no prepared data: run scripts/prepare.sh --out {data} first")
