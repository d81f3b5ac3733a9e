"""The steps that split the sets of prepared data, on several processors."""

import argparse
from pathlib import Path
from typing import Any, Callable, List, Sequence

from ..command import Failure, say, script_name
from ..files import copy, read_json, replacing_folder, sha256, write_json
from ..prepared import NAME
from ..steps import Steps
from .blocks import over_blocks

Split = Callable[[Sequence[str]], List[str]]
"""Lines to as many lines of tokens, with spaces between them."""

SIZES = ((1000000, 37000), (100000, 16000), (10000, 8000), (1000, 2000), (0, 500))
"""Pairs or lines of a training set at least, and its merges or pieces: a subword should occur often enough to learn."""


def default_size(pairs: int) -> int:
    """Merges or pieces for a training set of this size."""
    return next(size for least, size in SIZES if pairs >= least)


class Preparation(Steps):
    """The steps in a folder of prepared data, and the sets that they work on.

    Args:
        folder: ``raw/SET.LANG`` in it has checked text, when the sets are split.
        args: the options of the script.
        langs: source and target language, or the language of text for language models.
        sets: fairseq's names of the sets.
    """

    def __init__(self, folder: Path, args: argparse.Namespace, langs: Sequence[str], sets: Sequence[str]) -> None:
        super().__init__(folder)
        self.args, self.langs, self.sets = args, langs, sets
        self.again = f"run scripts/{script_name()} again"
        """The remedy for a file that was lost in the meantime."""

    def train(self, folder: str) -> List[Path]:
        """The training set in one folder, a file for each language."""
        return [self.folder / folder / f"train.{lang}" for lang in self.langs]

    def size(self, given: Any, option: str, least: Callable[[], int] = lambda: 0) -> int:
        """The given number of merges or pieces, or the one for this training set, but not below ``least()``."""
        if given is not None:
            return int(given)
        unit = "pairs" if len(self.langs) > 1 else "lines"
        count = int(read_json(self.folder / "raw/train.json", self.again)[unit])
        size = max(default_size(count), least())
        say(f"{option} {size}: the default for {count:,} training {unit}")
        return size

    def learn(self, name: str, outputs: Sequence[str], work: Callable[[], None] = lambda: None) -> None:
        """The step ``name``, in which ``work`` learns how to split; with ``--like``, copies what was learned there.

        Args:
            outputs: the numbers of what is learned, as ``WAY.json``, and files that say how to split.
        """
        like = self.args.like
        if like is None:
            return self.step(name, outputs, work)
        numbers, *files = outputs
        if missing := [file for file in files if not (like / file).is_file()]:
            raise Failure(f"--like {like}: {missing[0]} is missing there: name a folder of prepare.sh or average.sh")
        self.setting(f"like {' '.join(sha256(like / file) for file in files)}")

        def take() -> None:
            for file in files:
                copy(like / file, self.folder / file)
            write_json(self.folder / numbers, read_json(like / NAME)[numbers.removesuffix(".json")])

        self.step(name, outputs, take)

    def split(self, name: str, source: str, target: str, way: Callable[[str], Split]) -> None:
        """The step ``name``: splits each file of one folder, by what ``way`` gives for its language, into another."""
        files = {f"{subset}.{lang}": lang for subset in self.sets for lang in self.langs}

        def work() -> None:
            ways = {lang: way(lang) for lang in self.langs}
            with replacing_folder(self.folder / target) as folder:
                for file, lang in files.items():
                    blocks = over_blocks(ways[lang], self.folder / source / file, self.args.workers, f"{target} {file}")
                    with (folder / file).open("w", encoding="utf-8", newline="\n") as lines:
                        for block in blocks:
                            lines.writelines(f"{line}\n" for line in block)

        self.step(name, [f"{target}/{file}" for file in files], work)
