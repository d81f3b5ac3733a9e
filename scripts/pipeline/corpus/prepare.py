"""Prepares parallel text for fairseq: checks, normalises, tokenises, splits by joint BPE, cleans and binarises it.

It skips steps that were done with the same settings and input, and continues a step that was killed. In tokenising,
applying BPE and binarising, each process loses at most its current shard (200,000 lines). Copying and cleaning
(seconds) and learning BPE (one long computation) begin anew. It prints the numbers of each step and writes
OUT/prepare.json.

Example:
  scripts/prepare.sh --train data/demo/train --valid data/demo/valid --test data/demo/test --merges 500 --out /tmp/demo
"""

import argparse
import contextlib
import logging
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from ..command import Failure, Parser, fill, run, say, script_name, split_at_dashes, whole_number
from ..files import sha256, write_json
from ..lock import AS_LONG_AS_IT_TAKES, locked
from ..steps import Steps
from . import bpe, summary, text
from .shards import map_lines
from .wmt14 import check_test_set, read_file

LINES = 200000
"""The largest size of a shard."""

COPIES = 7
"""Size of the prepared data relative to the raw text: checked, tokens, subwords, cleaned, shards, and indices."""


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options of ``scripts/prepare.sh``, and the two commands in that script."""
    template, argv = split_at_dashes(argv)
    parser = Parser(__doc__)
    prefix: Dict[str, Any] = dict(metavar="PREFIX", required=True)
    parser.add_argument("--train", help="the training set: PREFIX.en and PREFIX.de, also with .gz", **prefix)
    parser.add_argument("--valid", help="the validation set", **prefix)
    parser.add_argument(
        "--test", action="append", help="a test set; repeat it for more: fairseq's test, test1, test2, ...", **prefix
    )
    parser.add_argument("--source", default="en", metavar="LANG", help="source language (default: en)")
    parser.add_argument("--target", default="de", metavar="LANG", help="target language (default: de)")
    parser.add_argument(
        "--merges", type=whole_number(0), default=37000, help="BPE merges, learned on both sides (default: 37000)"
    )
    parser.add_argument(
        "--vocabulary-threshold",
        type=whole_number(0),
        default=0,
        metavar="N",
        help="split subwords that are rarer than N on their side of the training set (default: 0, none)",
    )
    parser.add_argument("--keep-hyphens", action="store_true", help="do not split words at hyphens")
    parser.add_argument(
        "--max-length",
        type=whole_number(1),
        default=250,
        help="drop training pairs with more BPE tokens than this on a side (default: 250)",
    )
    parser.add_argument(
        "--ratio",
        default="1.5",
        help="drop training pairs whose longer side has more than RATIO times the tokens of the other (default: 1.5)",
    )
    parser.add_argument("--workers", type=whole_number(1), help="number of processes (default: number of cores)")
    parser.add_argument(
        "--out", type=Path, required=True, help="output folder: raw/ tok/ bpe/ bin/, bpecodes and prepare.json"
    )
    args = parser.parse_args(argv)
    try:
        if not 1 <= float(args.ratio) < float("inf"):
            raise ValueError
    except ValueError:
        parser.error(f"--ratio must be a number, at least 1, not '{args.ratio}'")
    if args.source == args.target:
        parser.error(f"--source and --target are both '{args.source}': name two languages")
    cores = os.cpu_count() or 1
    if (args.workers or 0) > cores:
        say(f"--workers {args.workers}: this machine has {cores} cores, and as many work")
    args.workers = min(args.workers or cores, cores)
    args.command = shlex.join([f"scripts/{script_name()}", *argv])
    commands = argparse.ArgumentParser()
    commands.add_argument("--tokenize", type=shlex.split, required=True)
    commands.add_argument("--apply-bpe", type=shlex.split, required=True)
    return commands.parse_args(template, args)


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

    def run(self) -> None:
        """Does the steps that are not done yet.

        Raises:
            Failure: the text cannot be used, there is too little disk space, or a tool fails.
        """
        files = [text.find(prefix, lang) for prefix in self.prefixes.values() for lang in self.langs]
        self._check(files)
        with locked(self.out, AS_LONG_AS_IT_TAKES):
            self._steps([sha256(file) for file in files])
            args = self.args
            info = {
                "merges": str(args.merges),
                "hyphens": "kept" if args.keep_hyphens else "split",
                "vocabulary_threshold": str(args.vocabulary_threshold),
                "max_length": str(args.max_length),
                "ratio": args.ratio,
                "command": args.command,
                **summary.collect(self.out),
            }
            write_json(self.out / "prepare.json", info)
            print(summary.summary(info))
        say(f"prepared: {args.out}")

    def _check(self, files: Sequence[Path]) -> None:
        """Raises Failure for the filtered newstest2014, and for too little disk space."""
        for file in files:
            if "newstest2014" in file.name:
                check_test_set(str(file), sum(1 for _ in read_file(file)))
        needed = COPIES * sum(file.stat().st_size * (3 if file.suffix == ".gz" else 1) for file in files)
        there = next(folder for folder in (self.out, *self.out.parents) if folder.is_dir())
        free = shutil.disk_usage(there).free
        if free < needed and not (self.out / "raw").is_dir():
            raise Failure(
                f"{self.args.out} has {free >> 20:,} MiB free, and about {needed >> 20:,} are needed: make room or "
                "choose another --out"
            )

    def _steps(self, hashes: Sequence[str]) -> None:
        """Runs the steps, each with its settings. Trained runs know their data by these lines: never change them."""
        args, steps = self.args, Steps(self.out)
        files = [f"{subset}.{lang}" for subset in self.prefixes for lang in self.langs]
        pair = "-".join(self.langs)
        binarized = [f"bin/{subset}.{pair}.{lang}.idx" for subset in self.prefixes for lang in self.langs]
        binarized += [f"bin/dict.{lang}.txt" for lang in self.langs]
        steps.setting(f"input {pair} {' '.join(hashes)}")
        steps.step("copy", [f"raw/{name}" for name in files], self._copy)
        steps.setting("control characters removed")
        if args.keep_hyphens:
            steps.setting("hyphens kept")
        steps.step("tokenize", [f"tok/{name}" for name in files], self._tokenize)
        steps.setting(f"merges {args.merges}")
        if args.vocabulary_threshold:
            steps.setting(f"vocabulary threshold {args.vocabulary_threshold}")
        steps.step("learn-bpe", ["bpecodes", "bpe.json"], self._learn_bpe)
        steps.step("apply-bpe", [f"bpe/{name}" for name in files], self._apply_bpe)
        steps.setting(f"max-length {args.max_length} ratio {args.ratio}")
        steps.step("clean", [f"bpe/train.clean.{lang}" for lang in self.langs] + ["clean.json"], self._clean)
        steps.step("binarize", [*binarized, "binarize.json"], self._binarize)

    def _copy(self) -> None:
        temporary, raw = self.out / "raw.tmp", self.out / "raw"
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            for subset, prefix in self.prefixes.items():
                counts = text.copy(prefix, str(temporary / subset), self.langs)
                write_json(temporary / f"{subset}.json", counts)
            shutil.rmtree(raw, ignore_errors=True)
            os.replace(temporary, raw)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _over_all(self, source: str, target: str, template: Sequence[str], depends: Sequence[str] = ()) -> None:
        """Passes every file of one folder through a command into the other folder."""
        (self.out / target).mkdir(exist_ok=True)
        split_hyphens = "" if self.args.keep_hyphens else "-a"
        for subset in self.prefixes:
            for lang in self.langs:
                values = dict(lang=lang, codes=self.out / "bpecodes", split_hyphens=split_hyphens, out=self.out)
                command = fill(template, **values)
                files = [Path(path) for path in fill(depends, **values)]
                name = f"{subset}.{lang}"
                label = f"{target} {name}"
                map_lines(
                    command, self.out / source / name, self.out / target / name, self.args.workers, LINES, label, files
                )

    def _tokenize(self) -> None:
        self._over_all("raw", "tok", self.args.tokenize)

    def _vocabulary(self, lang: str) -> Path:
        return self.out / f"vocabulary.{lang}"

    def _learn_bpe(self) -> None:
        sides = [self.out / "tok" / f"train.{lang}" for lang in self.langs]
        vocabularies = [self._vocabulary(lang) for lang in self.langs] if self.args.vocabulary_threshold else []
        with contextlib.ExitStack() as stack:
            if not sys.stderr.isatty():  # the library's bar is for a terminal
                log = stack.enter_context((self.out / "learn_bpe.log").open("w", encoding="utf-8"))
                stack.enter_context(contextlib.redirect_stderr(log))
            counts = bpe.learn(sides, self.args.merges, self.out / "bpecodes", self.args.workers, vocabularies)
        write_json(self.out / "bpe.json", counts)

    def _apply_bpe(self) -> None:
        threshold = self.args.vocabulary_threshold
        more: List[str] = []
        if threshold:
            more = ["--vocabulary", "{out}/vocabulary.{lang}", "--vocabulary-threshold", str(threshold)]
        depends = ["{codes}", "{out}/vocabulary.{lang}"] if threshold else ["{codes}"]
        self._over_all("tok", "bpe", [*self.args.apply_bpe, *more], depends)

    def _clean(self) -> None:
        bpe_folder, ratio = self.out / "bpe", float(self.args.ratio)
        source, target = str(bpe_folder / "train"), str(bpe_folder / "train.clean")
        counts = text.clean(source, target, self.langs, 1, self.args.max_length, ratio)
        write_json(self.out / "clean.json", counts)

    def _binarize(self) -> None:
        logging.disable(logging.INFO)  # what fairseq says when it is imported
        from .binarize import binarize

        files = {subset: "train.clean" if subset == "train" else subset for subset in self.prefixes}
        counts = binarize(self.out / "bpe", self.langs, files, self.out / "bin", self.args.workers, LINES)
        write_json(self.out / "binarize.json", counts)


def main(argv: Sequence[str]) -> None:
    Preparation(parse(argv)).run()


if __name__ == "__main__":
    run(main)
