"""Prepares parallel text for fairseq: checks it, splits it into subwords, cleans and binarises it.

With `--subwords bpe` it normalises punctuation, tokenises (Moses) and learns and applies joint BPE; with `--subwords
sentencepiece` it learns and applies one model of SentencePiece on the raw text of both sides, in any script. It skips
steps that were done with the same settings and input, and continues a step that was killed. In tokenising, applying
subwords and binarising, each process loses at most its current shard (200,000 lines). Copying and cleaning (seconds)
and learning subwords (one long computation) begin anew. It prints the numbers of each step and writes OUT/prepare.json.

Examples:
  scripts/prepare.sh --train data/demo/train --valid data/demo/valid --test data/demo/test --merges 500 --out /tmp/demo
  scripts/prepare.sh --train my/train --valid my/valid --test my/test --target zh --subwords sentencepiece --out /tmp/my
  scripts/prepare.sh --binarized my/data-bin --target fr --subwords bpe --codes my/codes --test my/test --out /tmp/fr
"""

import argparse
import logging
import shutil
from pathlib import Path
from typing import Dict, Sequence, Tuple

from ..command import Failure, check_name, run, say
from ..files import sha256, write_json
from ..lock import AS_LONG_AS_IT_TAKES, locked
from ..steps import STAMPS, Steps
from . import summary, text
from .cleaning import clean
from .options import parse
from .splitting import LINES, SPLITTINGS
from .wmt14 import check_test_set, read_file

FOLDERS = ("raw", "tok", "bpe", "pieces", "bytes", "bin")
"""What a preparation writes to, beside files."""

COPIES = 7
"""Size of the prepared data relative to the raw text: checked, tokens, subwords, cleaned, shards, and indices."""

MOST_DROPPED = 0.1
"""The share of the training pairs that the default of ``--ratio`` may drop: above it, the user decides."""


class Preparation:
    """The steps from raw text to binarised data, in one folder.

    Args:
        args: the result of :func:`parse`.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.out = args, args.out.resolve()
        self.langs: Tuple[str, str] = (args.source, args.target)
        tests = ["test", *(f"test{number}" for number in range(1, len(args.test)))]
        self.prefixes = dict(zip(["train", "valid", *tests], [args.train, args.valid, *args.test]))
        """Subset, as fairseq calls it, to the path of its raw text without the language."""
        self.splitting = SPLITTINGS[args.subwords](args, self.out, self.langs, list(self.prefixes))

    def run(self) -> None:
        """Does the steps that are not done yet.

        Raises:
            Failure: the text cannot be used, there is too little disk space, or a tool fails.
        """
        files = [text.find(prefix, lang) for prefix in self.prefixes.values() for lang in self.langs]
        self._check(files)
        hashes = [sha256(file) for file in files]
        self._check_sets(hashes)
        with locked(self.out, AS_LONG_AS_IT_TAKES):
            self._steps(hashes)
            args = self.args
            info = {
                "source": args.source,
                "target": args.target,
                "subwords": args.subwords,
                **self.splitting.info,
                "max_length": str(args.max_length),
                "ratio": args.ratio,
                "command": args.command,
                "sets": {subset: Path(prefix).name for subset, prefix in self.prefixes.items()},
                **summary.collect(self.out, self.langs, args.subwords, self.splitting.files),
            }
            write_json(self.out / "prepare.json", info)
            print(summary.summary(info))
        say(f"prepared: {args.out}")

    def _check(self, files: Sequence[Path]) -> None:
        """Raises Failure for an output that is something else, the filtered newstest2014, too little disk space, and
        text that cannot be split."""
        check_out(self.out, files)
        for file in files:
            if "newstest2014" in file.name:
                check_test_set(str(file), sum(1 for _ in read_file(file)))
        check_room(self.out, files, COPIES)
        self.splitting.check(files[: len(self.langs)])

    def _check_sets(self, hashes: Sequence[str]) -> None:
        """Raises Failure if two sets are the same text: a model would be scored on what it has seen."""
        seen: Dict[Tuple[str, str], str] = {}
        for subset, pair in zip(self.prefixes, zip(hashes[::2], hashes[1::2])):
            if pair in seen:
                text_of = f"{self.prefixes[subset]}: the text of {seen[pair]} is that of {subset}, too"
                raise Failure(f"{text_of}; give each of --train, --valid, --test its own")
            seen[pair] = subset

    def _steps(self, hashes: Sequence[str]) -> None:
        """Runs the steps, each with its settings. Trained runs know their data by these lines: never change them."""
        args, steps = self.args, Steps(self.out)
        files = [f"{subset}.{lang}" for subset in self.prefixes for lang in self.langs]
        pair = "-".join(self.langs)
        binarized = [f"bin/{subset}.{pair}.{lang}.idx" for subset in self.prefixes for lang in self.langs]
        binarized += [f"bin/dict.{lang}.txt" for lang in self.langs]
        steps.setting(f"input {pair} {' '.join(hashes)}")
        numbers = [f"raw/{subset}.json" for subset in self.prefixes]
        steps.step("copy", [*(f"raw/{name}" for name in files), *numbers], self._copy)
        self.splitting.steps(steps)
        steps.setting(f"max-length {args.max_length} ratio {args.ratio}")
        steps.step(
            "clean",
            [f"{self.splitting.folder}/train.clean.{lang}" for lang in self.langs] + ["clean.json"],
            self._clean,
        )
        steps.step("binarize", [*binarized, "binarize.json"], self._binarize)

    def _copy(self) -> None:
        text.copy_sets(self.prefixes, self.out / "raw", self.langs)

    def _clean(self) -> None:
        folder, args = self.out / self.splitting.folder, self.args
        ratio = float("inf" if args.ratio == "none" else args.ratio)
        most = 1.0 if args.ratio_given else MOST_DROPPED
        source, target = str(folder / "train"), str(folder / "train.clean")
        write_json(self.out / "clean.json", clean(source, target, self.langs, 1, args.max_length, ratio, most))

    def _binarize(self) -> None:
        files = {subset: "train.clean" if subset == "train" else subset for subset in self.prefixes}
        binarize_split(self.out, self.splitting.folder, self.langs, files, self.args.workers)


def binarize_split(out: Path, folder: str, langs: Sequence[str], files: Dict[str, str], workers: int) -> None:
    """Binarises the split text of a preparation, ``files`` by subset, and writes ``binarize.json``."""
    logging.disable(logging.INFO)  # what fairseq says when it is imported
    from .binarize import binarize

    counts = binarize(out / folder, langs, files, out / "bin", workers, LINES)
    (out / "prepare.json").unlink(missing_ok=True)  # of other data, if a kill comes before the new one
    write_json(out / "binarize.json", counts)


def check_out(out: Path, given: Sequence[Path]) -> None:
    """Raises Failure if a preparation in ``out`` would destroy files of others, or has a name that fairseq would split.

    Args:
        given: what it reads.
    """
    there = next(path for path in (out, *out.resolve().parents) if path.exists())
    if not there.is_dir():
        raise Failure(f"{there} is no folder: choose another --out")
    check_name(str(out.absolute()))
    if (out / "run.json").exists():
        raise Failure(f"{out} is the folder of a training, and its subwords would be lost: choose another --out")
    folders = [out.resolve() / name for name in FOLDERS]
    for folder in folders:
        if folder.exists() and not (out / STAMPS).is_dir():
            raise Failure(f"{folder} would be replaced, and no preparation has made it: choose another --out")
        for path in (file.resolve() for file in given):
            if folder in (path, *path.parents):
                raise Failure(f"{path} is in a folder that would be replaced: choose another --out")


def check_room(out: Path, files: Sequence[Path], copies: int) -> None:
    """Raises Failure if ``out`` has no room for prepared data that are ``copies`` times as large as these files."""
    needed = copies * sum(file.stat().st_size * (3 if file.suffix == ".gz" else 1) for file in files)
    there = next(folder for folder in (out, *out.parents) if folder.is_dir())
    free = shutil.disk_usage(there).free
    if free < needed and not (out / "raw").is_dir():
        raise Failure(
            f"{out} has {free >> 20:,} MiB free, and about {needed >> 20:,} are needed: make room or choose another "
            "--out"
        )


def main(argv: Sequence[str]) -> None:
    args = parse(argv, __doc__)
    if args.binarized:
        check_out(args.out, [args.binarized])
        logging.disable(logging.INFO)  # what fairseq says when it is imported
        from .binarized import Binarized

        return Binarized(args).run()
    Preparation(args).run()


if __name__ == "__main__":
    run(main)
