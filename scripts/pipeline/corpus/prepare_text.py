"""Prepares text for language models: checks it, splits it into subwords or bytes, and binarises it.

Text is documents. A PATH is a file, a folder of files, or the beginning of names (PATH.en, PATH.txt.gz). A document
ends with its file and at an empty line, or, with --document-start, before each line that begins so. Each line of text
stays a line. Without --valid and --test, a part of the documents is held out, chosen by the hash of their text.

It skips steps that were done with the same settings and input, and continues a step that was killed, as
scripts/prepare.sh does. It prints the numbers of each set and writes OUT/prepare.json. fairseq cuts the text into
blocks when it trains (--tokens-per-sample, --sample-break-mode), so one folder serves any length and both kinds of
language models.

Examples:
  scripts/prepare_text.sh --train data/demo/train --valid data/demo/valid --test data/demo/test --out /tmp/text
  scripts/prepare_text.sh --train my/books --hold-out 5 --subwords bytes --out /tmp/bytes
"""

import argparse
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Set

from ..command import Failure, Parser, not_empty, run, say, split_at_dashes
from ..files import sha256, write_json
from ..languages import language
from ..lock import AS_LONG_AS_IT_TAKES, locked
from ..prepared import TEXT_SUBWORDS
from ..steps import Steps
from . import summary
from .documents import HELD_OUT, copy_documents, find_files, is_json
from .options import add_subwords, check_subwords, completed, given_options
from .prepare import binarize_split, check_out, check_room
from .splitting import SPLITTINGS

COPIES = {"bpe": 5, "sentencepiece": 4, "bytes": 8}
"""Size of the prepared data relative to the raw text."""


def parse(argv: Sequence[str], doc: Optional[str] = None) -> argparse.Namespace:
    """The options of ``scripts/prepare_text.sh``, and the commands in that script."""
    template, argv = split_at_dashes(argv)
    parser = Parser(doc)
    sets: Dict[str, Any] = dict(action="append", nargs="+", default=[], metavar="PATH", type=not_empty)
    parser.add_argument("--train", help="text to train on, and to learn subwords from", **sets)
    parser.add_argument("--valid", help="validation text", **sets)
    parser.add_argument("--test", help="test text; repeat it for more sets: fairseq's test, test1, test2, ...", **sets)
    parser.add_argument(
        "--hold-out",
        type=_percent,
        metavar="PERCENT",
        help="in place of --valid and --test: the part of the documents to hold out for each of them",
    )
    parser.add_argument(
        "--document-start", type=not_empty, metavar="TEXT", help="documents begin at each line that begins with TEXT"
    )
    parser.add_argument(
        "--language", type=language, default="en", metavar="LANG", help="language of the text (default: en)"
    )
    parser.add_argument(
        "--subwords",
        choices=TEXT_SUBWORDS,
        default="bpe",
        help="bpe: Moses tokens and subword-nmt (default); sentencepiece: raw text in any script; bytes",
    )
    add_subwords(parser, "the training text")
    args = parser.parse_args(argv)
    check_subwords(parser, args.subwords, given_options(args))
    if not args.train:
        parser.error("the following arguments are required: --train")
    if args.hold_out and (args.valid or args.test):
        parser.error("--hold-out is in place of --valid and --test: leave these out")
    if not args.hold_out and not (args.valid and args.test):
        parser.error("give --valid and --test, or --hold-out PERCENT")
    return completed(args, template, argv)


def _percent(text: str) -> float:
    """For ``type=``: a part that leaves most documents to the training set."""
    try:
        percent = float(text)
    except ValueError:
        percent = 0
    if not 0.001 <= percent <= 25:
        raise argparse.ArgumentTypeError(f"must be a percentage from 0.001 to 25, not '{text}'")
    return percent


class TextPreparation:
    """The steps from documents to binarised data, in one folder.

    Args:
        args: the result of :func:`parse`.

    Raises:
        Failure: a file is missing, or the output would be a part of the text.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.out = args, args.out.resolve()
        names = [word for words in args.valid for word in words]
        given = {"train": [word for words in args.train for word in words], **({"valid": names} if names else {})}
        given.update({f"test{number or ''}": words for number, words in enumerate(args.test)})
        self.sets: Dict[str, List[Path]] = {
            subset: [file for word in words for file in find_files(word)] for subset, words in given.items()
        }
        for name in (Path(word).resolve() for words in given.values() for word in words):
            if name in (self.out, *self.out.parents):
                raise Failure(f"{args.out} is in the folder of the text, {name}: choose another --out")
        check_out(self.out, [file for files in self.sets.values() for file in files])
        self.subsets = ["train", *reversed(HELD_OUT)] if args.hold_out else list(self.sets)
        self.splitting = SPLITTINGS[args.subwords](args, self.out, [args.language], self.subsets)

    def run(self) -> None:
        """Does the steps that are not done yet.

        Raises:
            Failure: the text cannot be used, there is too little disk space, or a tool fails.
        """
        args = self.args
        files = [file for files in self.sets.values() for file in files]
        check_room(self.out, files, COPIES[args.subwords])
        self.splitting.check(self.sets["train"])
        with locked(self.out, AS_LONG_AS_IT_TAKES):
            self._steps()
            info = {
                "kind": "text",
                **{"source": args.language, "target": args.language},
                "subwords": args.subwords,
                **self.splitting.info,
                "command": args.command,
                **summary.collect_text(self.out, args.language, args.subwords, self.splitting.files),
            }
            write_json(self.out / "prepare.json", info)
            print(summary.text_summary(info))
        say(f"prepared: {args.out}")

    def _steps(self) -> None:
        """Runs the steps, each with its settings. Trained runs know their data by these lines: never change them."""
        args, steps = self.args, Steps(self.out)
        known: Set[str] = set()  # files of the sets before
        for subset, files in self.sets.items():
            hashes = [sha256(file) for file in files]
            steps.setting(f"text {args.language} {subset} {' '.join(hashes)}")
            if json := " ".join(str(number) for number, file in enumerate(files) if is_json(file)):
                steps.setting(f"JSON {json}")
            if twice := [file for file, digest in zip(files, hashes) if digest in known]:
                raise Failure(
                    f"{twice[0]}: another set has this text too; give each of --train, --valid, --test its own"
                )
            known.update(hashes)
        if args.document_start:
            steps.setting(f"document start {args.document_start!a}")
        if args.hold_out:
            steps.setting(f"hold out {args.hold_out:g}")
        copies = [f"raw/{subset}.{end}" for subset in self.subsets for end in (args.language, "json")]
        steps.step("copy", copies, self._copy)
        self.splitting.steps(steps)
        binarized = [f"bin/{subset}.idx" for subset in self.subsets]
        steps.step("binarize", [*binarized, "bin/dict.txt", "binarize.json"], self._binarize)

    def _copy(self) -> None:
        args = self.args
        copy_documents(self.sets, self.out / "raw", args.language, args.document_start or "", args.hold_out or 0)

    def _binarize(self) -> None:
        files = {subset: subset for subset in self.subsets}
        binarize_split(self.out, self.splitting.folder, [self.args.language], files, self.args.workers)


def main(argv: Sequence[str]) -> None:
    TextPreparation(parse(argv, __doc__)).run()


if __name__ == "__main__":
    run(main)
