"""Prepares text for language models: checks it, splits it into subwords or bytes, and binarises it.

Text is documents. A PATH is a file, a folder of files, or the beginning of names (PATH.en, PATH.txt.gz). A document
ends with its file and at an empty line, or, with --document-start, before each line that begins so. Each line of text
stays a line. Without --valid and --test, a part of the documents is held out, chosen by the hash of their text.

It skips steps that were done with the same settings and input, as scripts/prepare.sh does. It prints the numbers of
each set and writes OUT/prepare.json. fairseq cuts the text into blocks when it trains (--tokens-per-sample,
--sample-break-mode), so one folder serves any length and both kinds of language models.

Examples:
  scripts/prepare_text.sh --train data/demo/train --valid data/demo/valid --test data/demo/test --out /tmp/text
  scripts/prepare_text.sh --train my/books --hold-out 5 --subwords bytes --out /tmp/bytes
"""

import argparse
from itertools import chain
from pathlib import Path
from typing import Any, Dict, Optional, Sequence, Set

from ..command import Failure, Parser, not_empty, run
from ..files import sha256, write_json
from ..languages import language
from ..prepared import NAME
from ..text import TEXTS
from . import summary
from .documents import HELD_OUT, copy_documents, documents, find_files, is_json
from .prepare import add_options, binarize_step, check_out, completed, preparing


def parse(argv: Sequence[str], doc: Optional[str] = None) -> argparse.Namespace:
    """The options of ``scripts/prepare_text.sh``."""
    parser = Parser(doc)
    sets: Dict[str, Any] = dict(action="append", nargs="+", default=[], metavar="PATH", type=not_empty)
    parser.add_argument("--train", required=True, help="text to train on, and to learn subwords from", **sets)
    parser.add_argument("--valid", help="validation text", **sets)
    parser.add_argument("--test", help="test text; repeat it for more sets: fairseq's test, test1, test2, ...", **sets)
    held = "in place of --valid and --test: the part of the documents to hold out for each of them"
    parser.add_argument("--hold-out", type=_percent, default=0, metavar="PERCENT", help=held)
    start = "documents begin at each line that begins with TEXT"
    parser.add_argument("--document-start", type=not_empty, metavar="TEXT", help=start)
    parser.add_argument(
        "--language", type=language, default="en", metavar="LANG", help="language of the text (default: en)"
    )
    ways = [name for name, way in TEXTS.items() if "text" in way.applies_to]
    add_options(
        parser, ways, "bpe: Moses tokens and subword-nmt (default); sentencepiece: raw text in any script; bytes"
    )
    args = parser.parse_args(argv)
    if args.hold_out and (args.valid or args.test):
        parser.error("--hold-out is in place of --valid and --test: leave these out")
    if not args.hold_out and not (args.valid and args.test):
        parser.error("give --valid and --test, or --hold-out PERCENT")
    args.like = args.add_tokens = None
    completed(parser, args, "prepare_text.sh", argv)
    return args


def _percent(text: str) -> float:
    """For ``type=``: a part that leaves most documents to the training set."""
    try:
        percent = float(text)
    except ValueError:
        percent = 0
    if not 0.001 <= percent <= 25:
        raise argparse.ArgumentTypeError(f"must be a percentage from 0.001 to 25, not '{text}'")
    return percent


def prepare(args: argparse.Namespace) -> None:
    """The steps from documents to binarised data.

    Raises:
        Failure: the text cannot be used, the output would be a part of it, or a tool fails.
    """
    lang, out = args.language, args.out.resolve()
    words = {name: list(chain(*given)) for name, given in (("train", args.train), ("valid", args.valid)) if given}
    words.update({f"test{number or ''}": names for number, names in enumerate(args.test)})
    sets = {subset: [file for name in names for file in find_files(name)] for subset, names in words.items()}
    for name in (Path(name).resolve() for names in words.values() for name in names):
        if name in (out, *out.parents):
            raise Failure(f"{args.out} is in the folder of the text, {name}: choose another --out")
    check_out(out, list(chain(*sets.values())))
    hashes = {subset: [sha256(file) for file in files] for subset, files in sets.items()}
    known: Set[str] = set()  # files of the sets before
    for subset, files in sets.items():
        if twice := [file for file, digest in zip(files, hashes[subset]) if digest in known]:
            raise Failure(f"{twice[0]}: another set has this text too; give each of --train, --valid, --test its own")
        known.update(hashes[subset])
    names = ["train", *reversed(HELD_OUT)] if args.hold_out else list(sets)
    text = {file: chain.from_iterable(documents([file])) for file in sets["train"]}
    with preparing(args, [lang], names, text) as (steps, way):
        for subset, files in sets.items():  # trained runs know their data by the settings of all steps
            steps.setting(f"text {lang} {subset} {' '.join(hashes[subset])}")
            if json := " ".join(str(number) for number, file in enumerate(files) if is_json(file)):
                steps.setting(f"JSON {json}")
        if args.document_start:
            steps.setting(f"document start {args.document_start!a}")
        if args.hold_out:
            steps.setting(f"hold out {args.hold_out:g}")
        copies = [f"raw/{name}.{end}" for name in names for end in (lang, "json")]
        copied = (sets, out / "raw", lang, args.document_start or "", args.hold_out)
        steps.step("copy", copies, lambda: copy_documents(*copied))
        entries = way.prepare(steps)
        binarized = [f"bin/{name}.{end}" for name in names for end in ("bin", "idx")]
        binarize_step(steps, way, [*binarized, "bin/dict.txt"], {name: name for name in steps.sets})
        info = {
            "kind": "text",
            "source": lang,
            "target": lang,
            "subwords": args.subwords,
            **entries,
            "command": args.command,
            **summary.collect(out, [lang], args.subwords, way),
        }
        write_json(out / NAME, info)
        print(summary.summary(info))


def main(argv: Sequence[str]) -> None:
    prepare(parse(argv, __doc__))


if __name__ == "__main__":
    run(main)
