"""The steps from checked text to subwords, with a class for each kind."""

import argparse
from abc import ABC, abstractmethod
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence, Type

from ..command import fill, say, script_name
from ..files import read_shaped, write_json
from ..languages import base
from ..paths import RUN
from ..prepared import MODELS
from ..processing.pieces import library
from ..shape import WHOLE
from ..steps import Steps
from . import bpe, learn_pieces
from .shards import map_lines
from .spaces import check_marks, check_spaces

CODES, MODEL = MODELS["bpe"], MODELS["sentencepiece"]

LINES = 200000
"""The largest size of a shard."""

SIZES = ((1000000, 37000), (100000, 16000), (10000, 8000), (1000, 2000), (0, 500))
"""Pairs or lines of a training set at least, and its merges or pieces: a subword should occur often enough to learn."""


def default_size(pairs: int) -> int:
    """Merges or pieces for a training set of this size."""
    return next(size for least, size in SIZES if pairs >= least)


class Splitting(ABC):
    """The steps of one kind of subwords, in a folder of prepared data.

    Args:
        args: the options of ``scripts/prepare.sh``.
        out: the folder.
        langs: source and target language, or the language of text for language models.
        subsets: fairseq's names of the sets; ``raw/SUBSET.LANG`` has the checked text.
    """

    folder = ""
    """The folder of the subwords, in ``out``."""

    def __init__(self, args: argparse.Namespace, out: Path, langs: Sequence[str], subsets: Sequence[str]) -> None:
        self.args, self.out, self.langs, self.subsets = args, out, langs, subsets

    @abstractmethod
    def check(self, files: Sequence[Path]) -> None:
        """Raises Failure if the raw text of the training set cannot be split in this way."""

    @abstractmethod
    def steps(self, steps: Steps) -> None:
        """Runs the steps, each with its settings. Trained runs know their data by these lines: never change them."""

    @property
    @abstractmethod
    def info(self) -> Dict[str, str]:
        """Entries of ``prepare.json``, after the steps."""

    @property
    @abstractmethod
    def files(self) -> List[Path]:
        """The files that say how text is split, after the steps."""

    def _size(self, given: Any, option: str, least: Callable[[], int] = lambda: 0) -> int:
        """The given number of merges or pieces, or the one for this training set, but not below ``least()``."""
        if given is not None:
            return int(given)
        unit = "pairs" if len(self.langs) > 1 else "lines"
        remedy = f"run scripts/{script_name()} again"
        count = read_shaped(self.out / "raw/train.json", {unit: WHOLE}, remedy)[unit]
        size = max(default_size(count), least())
        say(f"{option} {size}: the default for {count:,} training {unit}")
        return size

    def _over_all(self, source: str, target: str, template: Sequence[str], depends: Sequence[str] = ()) -> None:
        """Passes every file of one folder through a command into the other folder."""
        (self.out / target).mkdir(exist_ok=True)
        split_hyphens = "" if self.args.keep_hyphens else "-a"
        for subset in self.subsets:
            for lang in self.langs:
                values = dict(lang=lang, language=base(lang), out=self.out, split_hyphens=split_hyphens, run=RUN)
                values.update(codes=self.out / CODES, model=self.out / MODEL)
                files = [Path(path) for path in fill(depends, **values)]
                name = f"{subset}.{lang}"
                sides = (self.out / source / name, self.out / target / name)
                map_lines(fill(template, **values), *sides, self.args.workers, LINES, f"{target} {name}", files)


class MosesBPE(Splitting):
    """Normalises punctuation, removes control characters, tokenises (Moses), and learns and applies joint BPE."""

    folder = "bpe"

    def check(self, files: Sequence[Path]) -> None:
        for file in files:
            check_spaces(file)
            check_marks(file, file.suffix[1:])

    def steps(self, steps: Steps) -> None:
        args = self.args
        names = [f"{subset}.{lang}" for subset in self.subsets for lang in self.langs]
        steps.setting("control characters removed")
        if args.keep_hyphens:
            steps.setting("hyphens kept")
        steps.step("tokenize", [f"tok/{name}" for name in names], self._tokenize)
        self.merges = self._size(args.merges, "--merges")
        steps.setting(f"merges {self.merges}")
        if args.vocabulary_threshold:
            steps.setting(f"vocabulary threshold {args.vocabulary_threshold}")
        vocabularies = [path.name for path in self._vocabularies]
        steps.step("learn-bpe", [CODES, "bpe.json", *vocabularies], self._learn)
        steps.step("apply-bpe", [f"bpe/{name}" for name in names], self._apply)

    @property
    def info(self) -> Dict[str, str]:
        return {
            "merges": str(self.merges),
            "hyphens": "kept" if self.args.keep_hyphens else "split",
            "vocabulary_threshold": str(self.args.vocabulary_threshold),
        }

    @property
    def _vocabularies(self) -> List[Path]:
        threshold = self.args.vocabulary_threshold
        return [self.out / f"vocabulary.{lang}" for lang in self.langs] if threshold else []

    @property
    def files(self) -> List[Path]:
        return [self.out / CODES, *self._vocabularies]

    def _tokenize(self) -> None:
        self._over_all("raw", "tok", self.args.tokenize)

    def _learn(self) -> None:
        sides = [self.out / "tok" / f"train.{lang}" for lang in self.langs]
        counts = bpe.learn(sides, self.merges, self.out / CODES, self.args.workers, self._vocabularies)
        write_json(self.out / "bpe.json", counts)

    def _apply(self) -> None:
        threshold = self.args.vocabulary_threshold
        more: List[str] = []
        if threshold:
            more = ["--vocabulary", "{out}/vocabulary.{lang}", "--vocabulary-threshold", str(threshold)]
        depends = ["{codes}", "{out}/vocabulary.{lang}"] if threshold else ["{codes}"]
        self._over_all("tok", "bpe", [*self.args.apply_bpe, *more], depends)


class SentencePiece(Splitting):
    """Learns one model of SentencePiece on the raw text of both sides, and applies it."""

    folder = "pieces"

    def check(self, files: Sequence[Path]) -> None:
        library()

    def steps(self, steps: Steps) -> None:
        enough = partial(learn_pieces.enough_pieces, self._sides)
        self.pieces = self._size(self.args.vocabulary, "--vocabulary", enough)
        steps.setting(f"sentencepiece {self.pieces}")
        steps.step("learn-sentencepiece", [MODEL, "sentencepiece.json"], self._learn)
        names = [f"{self.folder}/{subset}.{lang}" for subset in self.subsets for lang in self.langs]
        steps.step("apply-sentencepiece", names, self._apply)

    @property
    def info(self) -> Dict[str, str]:
        return {"pieces": str(self.pieces)}

    @property
    def files(self) -> List[Path]:
        return [self.out / MODEL]

    @property
    def _sides(self) -> List[Path]:
        return [self.out / "raw" / f"train.{lang}" for lang in self.langs]

    def _learn(self) -> None:
        write_json(self.out / "sentencepiece.json", learn_pieces.learn(self._sides, self.pieces, self.out / MODEL))

    def _apply(self) -> None:
        self._over_all("raw", self.folder, self.args.apply_sentencepiece, ["{model}"])


class Bytes(Splitting):
    """Splits raw text into bytes; nothing is learned."""

    folder = "bytes"
    info: Dict[str, str] = {}
    files: List[Path] = []

    def check(self, files: Sequence[Path]) -> None:
        """Any text can be split."""

    def steps(self, steps: Steps) -> None:
        names = [f"{self.folder}/{subset}.{lang}" for subset in self.subsets for lang in self.langs]
        steps.step("apply-bytes", names, lambda: self._over_all("raw", self.folder, self.args.apply_bytes))


SPLITTINGS: Dict[str, Type[Splitting]] = {"bpe": MosesBPE, "sentencepiece": SentencePiece, "bytes": Bytes}
"""By the option ``--subwords``."""
