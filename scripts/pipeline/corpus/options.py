"""The options of scripts/prepare.sh."""

import argparse
import os
import shlex
from typing import Any, Dict, List, Optional, Sequence

from ..command import Parser, say, script_name, split_at_dashes, to_path, whole_number
from ..languages import language
from ..prepared import SUBWORDS

TEXT_OF = {"train": "the training set: PREFIX.en and PREFIX.de, also with .gz", "valid": "the validation set"}

ONLY_FOR = {
    "bpe": ("merges", "vocabulary_threshold", "keep_hyphens"),
    "sentencepiece": ("vocabulary",),
    "none": (),
}
"""Options that belong to one kind of subwords."""

FROM_TEXT = ("train", "merges", "vocabulary", "vocabulary_threshold", "max_length", "ratio")
"""Options that are about raw text: binarised data were made without them."""

MAX_LENGTH = 250
RATIOS = {"bpe": "1.5", "sentencepiece": "none"}
"""Default of ``--ratio``. Pieces of two scripts differ in length: a Chinese sentence has fewer than an English one."""


def parse(argv: Sequence[str], doc: Optional[str] = None) -> argparse.Namespace:
    """The options of ``scripts/prepare.sh``, and the commands in that script.

    ``merges`` and ``vocabulary`` are None if they follow from the size of the training set.
    """
    template, argv = split_at_dashes(argv)
    parser = _parser(doc)
    args = parser.parse_args(argv)
    _check(parser, args, given_options(args))
    args.subwords = args.subwords or "bpe"
    args.max_length = args.max_length or MAX_LENGTH
    args.ratio_given = bool(args.ratio)
    args.ratio = args.ratio or RATIOS.get(args.subwords, "none")
    return completed(args, template, argv)


def completed(args: argparse.Namespace, template: Sequence[str], argv: Sequence[str]) -> argparse.Namespace:
    """The options with their defaults, the command line as ``command``, and the commands in the script."""
    args.vocabulary_threshold = args.vocabulary_threshold or 0
    cores = os.cpu_count() or 1
    if (args.workers or 0) > cores:
        say(f"--workers {args.workers}: this machine has {cores} cores, and as many work")
    args.workers = min(args.workers or cores, cores)
    args.command = shlex.join([f"scripts/{script_name()}", *argv])
    commands = argparse.ArgumentParser()
    for name in ("--tokenize", "--apply-bpe", "--apply-sentencepiece", "--apply-bytes"):
        commands.add_argument(name, type=shlex.split)
    return commands.parse_args(template, args)


class Once(argparse.Action):
    """For ``action=``: a text that the user may not give twice, as the last one would replace the others."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Optional[str] = None) -> None:
        if getattr(namespace, self.dest) is not None:
            parser.error(f"{option_string} is given twice: join its texts to one")
        setattr(namespace, self.dest, values)


def _parser(doc: Optional[str]) -> Parser:
    parser = Parser(doc)
    for name, text in TEXT_OF.items():
        parser.add_argument(f"--{name}", action=Once, metavar="PREFIX", help=text)
    tests = "a test set; repeat it for more: fairseq's test, test1, test2, ..."
    parser.add_argument("--test", action="append", default=[], metavar="PREFIX", help=tests)
    for side, lang in (("source", "en"), ("target", "de")):
        parser.add_argument(
            f"--{side}", type=language, default=lang, metavar="LANG", help=f"{side} language (default: {lang})"
        )
    parser.add_argument(
        "--subwords",
        choices=SUBWORDS,
        help="bpe: Moses tokens and subword-nmt (default); sentencepiece: raw text in any script, no other tokeniser; "
        "none: only for --binarized",
    )
    add_subwords(parser, "both sides", "; with --binarized, the dictionaries tell")
    parser.add_argument(
        "--max-length",
        type=whole_number(1),
        metavar="N",
        help=f"drop training pairs with more subwords than this on a side (default: {MAX_LENGTH})",
    )
    parser.add_argument(
        "--ratio",
        type=ratio,
        metavar="X",
        help="drop training pairs whose longer side has more than X times the subwords of the other, or none "
        "(default: 1.5 with bpe, if that drops no more than a tenth of the pairs; none with sentencepiece)",
    )
    _add_binarized(parser)
    return parser


def add_subwords(parser: Parser, learned_on: str, hyphens: str = "") -> None:
    """Adds the options about subwords, processes and output."""
    number: Dict[str, Any] = dict(type=whole_number(0), metavar="N")
    parser.add_argument(
        "--merges",
        help=f"BPE merges, learned on {learned_on} (default: by the size of the training set)",
        **{**number, "type": whole_number(1)},
    )
    parser.add_argument(
        "--vocabulary",
        help=f"most pieces of SentencePiece, learned on {learned_on} (default: likewise)",
        **{**number, "type": whole_number(5)},
    )
    rare = "split subwords that are rarer than N on their side of the training set (default: 0, none)"
    parser.add_argument("--vocabulary-threshold", help=rare, **number)
    parser.add_argument("--keep-hyphens", action="store_true", help=f"do not split words at hyphens{hyphens}")
    parser.add_argument("--workers", type=whole_number(1), help="number of processes (default: number of cores)")
    parser.add_argument("--out", type=to_path, required=True, help="output folder: raw/, bin/, prepare.json and others")


def _add_binarized(parser: Parser) -> None:
    own = parser.add_argument_group("data that you binarised yourself, in place of --train and --valid")
    own.add_argument("--binarized", type=to_path, metavar="BIN", help="--destdir of your fairseq-preprocess")
    own.add_argument(
        "--codes", type=to_path, metavar="FILE", help="your BPE codes or model of SentencePiece, to translate"
    )


def ratio(text: str) -> str:
    """For ``type=``: a ratio of lengths, as it was typed, or ``none``."""
    try:
        if text != "none" and not 1 <= float(text) < float("inf"):
            raise ValueError
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, at least 1, or none, not '{text}'") from None
    return text


def _check(parser: Parser, args: argparse.Namespace, given: List[str]) -> None:
    """Ends the process if options are missing, or do not go together."""
    if args.source == args.target:
        parser.error(f"--source and --target are both '{args.source}': name two languages")
    if args.binarized:
        for name in FROM_TEXT:
            if name in given:
                parser.error(f"{flag(name)} is for raw text: leave it out with --binarized")
        if not args.subwords:
            parser.error(
                "--binarized needs --subwords: 'bpe' (Moses tokens, with or without subword-nmt), 'sentencepiece', or "
                "'none' if tokens are text"
            )
        if args.codes and args.subwords == "none":
            parser.error("--codes is for --subwords bpe or sentencepiece")
    else:
        missing = [flag(name) for name in ("train", "valid", "test") if name not in given]
        if missing:
            parser.error(f"the following arguments are required: {', '.join(missing)}")
        if args.codes or args.subwords == "none":
            parser.error(f"{'--codes' if args.codes else '--subwords none'} is for --binarized")
    check_subwords(parser, args.subwords or "bpe", given)


def check_subwords(parser: Parser, subwords: str, given: List[str]) -> None:
    """Ends the process if an option is of another kind of subwords."""
    for kind, names in ONLY_FOR.items():
        for name in names:
            if name in given and kind != subwords:
                parser.error(f"{flag(name)} is for --subwords {kind}")


def given_options(args: argparse.Namespace) -> List[str]:
    """The names of the options that the user gave."""
    return [name for name, value in vars(args).items() if value is not None and value is not False and value != []]


def flag(name: str) -> str:
    """An option as the user types it."""
    return f"--{name.replace('_', '-')}"
