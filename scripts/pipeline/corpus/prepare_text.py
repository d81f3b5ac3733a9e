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
from typing import Any, Dict, Optional, Sequence

from ..command import Failure, Parser, decimal, not_empty
from ..files import sha256
from ..languages import language
from .documents import HELD_OUT, copy_documents, find_files, is_json
from .preparing import add_splitting, check_distinct, check_out, finish, parsed, preparing


def parse(argv: Sequence[str], doc: Optional[str] = None) -> argparse.Namespace:
    """The options of ``scripts/prepare_text.sh``."""
    parser = Parser(doc)
    sets: Dict[str, Any] = dict(action="append", nargs="+", default=[], metavar="PATH", type=not_empty)
    parser.add_argument("--train", required=True, help="text to train on, and to learn subwords from", **sets)
    parser.add_argument("--valid", help="validation text", **sets)
    parser.add_argument("--test", help="test text; repeat it for more sets: fairseq's test, test1, test2, ...", **sets)
    held = "in place of --valid and --test: the part of the documents to hold out for each of them"
    parser.add_argument("--hold-out", type=decimal(0.001, 25), metavar="PERCENT", help=held)
    start = "documents begin at each line that begins with TEXT"
    parser.add_argument("--document-start", default="", metavar="TEXT", help=start)
    text = "language of the text (default: en)"
    parser.add_argument("--language", type=language, default="en", metavar="LANG", help=text)
    parser.set_defaults(like=None)
    add_splitting(parser, "text")
    args = parsed(parser, "prepare_text.sh", argv)
    args.hold_out = float(args.hold_out or 0)
    if bool(args.hold_out) != (not args.valid and not args.test) or bool(args.valid) != bool(args.test):
        parser.error("give --valid and --test, or --hold-out PERCENT in place of both")
    return args


def prepare(args: argparse.Namespace) -> None:
    """The steps from documents to binarised data."""
    lang, out = args.language, args.out.resolve()
    words = {name: list(chain(*given)) for name, given in (("train", args.train), ("valid", args.valid)) if given}
    words.update({f"test{number or ''}": names for number, names in enumerate(args.test)})
    sets = {subset: [file for name in names for file in find_files(name)] for subset, names in words.items()}
    for name in (Path(name).resolve() for names in words.values() for name in names):
        if name in (out, *out.parents):
            raise Failure(f"{args.out} is in the folder of the text, {name}: choose another --out")
    check_out(out, list(chain(*sets.values())))
    hashes = {subset: [sha256(file) for file in files] for subset, files in sets.items()}
    check_distinct([dict(zip(files, hashes[subset])) for subset, files in sets.items()])
    names = ["train", *reversed(HELD_OUT)] if args.hold_out else list(sets)
    with preparing(args, [lang], names) as (steps, way):
        for subset, files in sets.items():  # trained runs know their data by the settings of all steps
            steps.setting(f"text {lang} {subset} {' '.join(hashes[subset])}")
            if json := " ".join(str(number) for number, file in enumerate(files) if is_json(file)):
                steps.setting(f"JSON {json}")
        if args.document_start:
            steps.setting(f"document start {args.document_start!a}")
        if args.hold_out:
            steps.setting(f"hold out {args.hold_out:g}")
        copies = [f"raw/{name}.{end}" for name in names for end in (lang, "json")]
        copied = (sets, out / "raw", lang, args.document_start, args.hold_out)
        steps.step("copy", copies, lambda: copy_documents(*copied))
        entries = way.prepare(steps)
        head = {"kind": "text", "source": lang, "target": lang, "subwords": args.subwords}
        finish(steps, way, {name: name for name in names}, {**head, **entries, "command": args.command})


def main(argv: Sequence[str]) -> None:
    prepare(parse(argv, __doc__))
