"""Prepares parallel text for fairseq: checks it, splits it into subwords, cleans and binarises it.

With `--subwords bpe` it normalises punctuation, tokenises (Moses) and learns and applies joint BPE; with `--subwords
sentencepiece` it learns and applies one model of SentencePiece on the raw text of both sides, in any script. It skips
steps that were done with the same settings and input; a step that was killed begins anew. It prints the numbers of each
step and writes OUT/prepare.json.

Examples:
  scripts/prepare.sh --train data/demo/train --valid data/demo/valid --test data/demo/test --merges 500 --out /tmp/demo
  scripts/prepare.sh --train my/train --valid my/valid --test my/test --target zh --subwords sentencepiece --out /tmp/my
  scripts/prepare.sh --binarized my/data-bin --target fr --subwords bpe --codes my/codes --test my/test --out /tmp/fr
"""

import argparse
import logging
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..command import Failure, Parser, decimal, to_path, whole_number
from ..files import read_as, read_json, read_lines, sha256, write_json
from ..languages import language
from ..prepared import NAME
from ..text import TEXTS
from ..text.base import Text
from ..text.preparation import Preparation
from ..text.segments import SENTENCES, SEPARATOR
from . import blocks, lines
from .cleaning import clean
from .preparing import add_splitting, check_distinct, check_out, dictionary, finish, parsed, preparing

MOST_DROPPED = 0.1
"""The share of the training pairs that the default of ``--ratio`` may drop: above it, the user decides."""

FILTERED = 2737
"""Lines of the filtered newstest2014."""


def parse(argv: Sequence[str], doc: Optional[str] = None) -> argparse.Namespace:
    """The options of ``scripts/prepare.sh``; with ``--binarized`` or ``--like``, others are not there."""
    given = [word.split("=")[0] for word in argv]
    binarized, like, listed = "--binarized" in given, "--like" in given, "--help" in given or "-h" in given
    parser = Parser(doc)
    parser.set_defaults(binarized=None, like=None)
    for side, lang in (("source", "en"), ("target", "de")):
        text = f"{side} language (default: {lang})"
        parser.add_argument(f"--{side}", type=language, default=lang, metavar="LANG", help=text)
    text = "a test set; repeat it for more: fairseq's test, test1, test2, ..."
    parser.add_argument("--test", action="append", default=[], required=not binarized, metavar="PREFIX", help=text)
    text = "the validation set: PREFIX.en and PREFIX.de, also with .gz"
    parser.add_argument("--valid", required=not binarized, metavar="PREFIX", help=text)
    if listed or not binarized:
        add_raw(parser)
    if listed or binarized:
        own = parser.add_argument_group("data that you binarised yourself, in place of raw text")
        own.add_argument("--binarized", type=to_path, metavar="BIN", help="--destdir of your fairseq-preprocess")
        codes = "your BPE codes or model of SentencePiece, to translate"
        own.add_argument("--codes", type=to_path, metavar="FILE", help=codes)
    if listed or not like:
        add_splitting(parser, "binarized" if binarized else "pairs")
    args = parsed(parser, "prepare.sh", argv)
    if args.source == args.target:
        parser.error(f"--source and --target are both '{args.source}': name two languages")
    if twice := [name for name in ("--train", "--valid") if given.count(name) > 1]:
        parser.error(f"{twice[0]} is given twice: join its texts to one")
    if binarized:
        return args
    if like:
        adopt(args)
    args.most_dropped = MOST_DROPPED if args.ratio is None else 1.0
    args.ratio = args.ratio or TEXTS[args.subwords].ratio
    return args


def add_raw(parser: Parser) -> None:
    """Adds the options of raw text."""
    raw = parser.add_argument_group("raw text")
    raw.add_argument("--train", required=True, metavar="PREFIX", help="the training set")
    text = "drop training pairs with more subwords than this on a side (default: 250)"
    raw.add_argument("--max-length", type=whole_number(1), default=250, metavar="N", help=text)
    text = (
        "drop training pairs whose longer side has more than X times the subwords of the other, or none (default: 1.5 "
        "with bpe, if that drops no more than a tenth of the pairs; none with sentencepiece)"
    )
    raw.add_argument("--ratio", type=ratio, metavar="X", help=text)
    text = (
        "the text has documents, with empty lines between them, or as PREFIX.tsv: train on blocks of 1, 2, 4, ... "
        "segments with at most N subwords"
    )
    raw.add_argument("--document-tokens", type=whole_number(1), default=0, metavar="N", help=text)
    text = "in place of --subwords: split with what DATA or a model folder has learned, and take its dictionaries"
    raw.add_argument("--like", type=to_path, metavar="FOLDER", help=text)
    text = "types to add at the ends of the dictionaries: languages' tags, for example"
    raw.add_argument("--add-tokens", type=words_in, default=[], metavar="FILE", help=text)


def ratio(text: str) -> str:
    """For ``type=``: a ratio of lengths, as it was typed, or ``none``."""
    return text if text == "none" else decimal(1, 1000)(text)


def words_in(name: str) -> List[str]:
    """For ``type=``: the words in a file."""
    return " ".join(read_lines(Path(name))).split()


def adopt(args: argparse.Namespace) -> None:
    """Completes the options with those of the folder of ``--like``."""
    info = read_as(args.like / NAME, Dict[str, Any], "name a folder of prepare.sh or average.sh")
    args.subwords = info.get("subwords", "bpe")
    if not {"cleaned", args.subwords} & info.keys():  # of prepare.sh, or of fairseq-rope convert
        raise Failure(
            f"--like {args.like}: its text was not split by prepare.sh: split yours as it was, call fairseq-preprocess "
            "with --srcdict and --tgtdict, and then prepare.sh --binarized"
        )
    pair = (args.source, args.target)
    known = [lang for lang in info.get("languages", pair) if dictionary(args.like, lang).is_file()]
    if missing := [lang for lang in pair if lang not in known]:
        raise Failure(f"--like {args.like}: no dictionary of {missing[0]} there: give its --source and --target")
    vars(args).update(TEXTS[args.subwords].options_in(info))


def prepare(args: argparse.Namespace) -> None:
    """The steps from pairs of raw text to binarised data."""
    langs, pair = (args.source, args.target), f"{args.source}-{args.target}"
    tests = {f"test{number or ''}": prefix for number, prefix in enumerate(args.test)}
    prefixes = {"train": args.train, "valid": args.valid, **tests}
    titles = {name: Path(prefix).name for name, prefix in prefixes.items()}
    tables = [blocks.table_of(prefix) if args.document_tokens else None for prefix in prefixes.values()]
    files = [table or lines.find(prefix, lang) for prefix, table in zip(prefixes.values(), tables) for lang in langs]
    check_out(args.out, files)
    for file in files:
        if "newstest2014" in file.name:
            check_newstest2014(file)
    hashes = [sha256(file) for file in files]
    check_distinct([{prefix: sides} for prefix, sides in zip(prefixes.values(), zip(hashes[::2], hashes[1::2]))])
    with preparing(args, langs, list(prefixes)) as (steps, way):
        out, tokens = steps.folder, steps.folder / way.tokens
        steps.setting(f"input {pair} {' '.join(hashes)}")  # trained runs know their data by the settings of all steps
        if args.document_tokens and None in tables:  # whose files may have been prepared as sentences
            steps.setting("empty lines end documents")
        copies = [f"raw/{name}.{end}" for name in prefixes for end in (*langs, "json")]
        copy = blocks.copy_documents if args.document_tokens else lines.copy_pairs
        steps.step("copy", copies, lambda: lines.copy_sets(prefixes, out / "raw", langs, copy=copy))
        entries = way.prepare(steps)
        given = {lang: dictionary(args.like, lang) for lang in langs} if args.like else {}
        if given:
            steps.setting(f"dictionaries {' '.join(map(sha256, given.values()))}")
        if args.add_tokens:
            steps.setting(f"tokens added {' '.join(args.add_tokens)}")
        if args.document_tokens:
            steps.setting(f"documents in blocks of 1, 2, 4, ... segments, at most {args.document_tokens} tokens")
        steps.setting(f"max-length {args.max_length} ratio {args.ratio}")

        def work() -> None:
            limit = float(args.ratio.replace("none", "inf"))
            sizes = read_json(out / "raw/train.json").get("documents", ())
            cleaned = (str(tokens / "train"), str(tokens / "train.clean"), langs, args.max_length, limit)
            write_json(out / "clean.json", clean(*cleaned, args.most_dropped, sizes))

        steps.step("clean", [*(f"{way.tokens}/train.clean.{lang}" for lang in langs), "clean.json"], work)
        split = {**{name: name for name in prefixes}, "train": "train.clean"}
        if args.document_tokens:
            made = blocks.names(list(tests))
            blocks_step(steps, way, made)
            split |= {"train": blocks.BLOCKS, **{name: name for name in (SENTENCES, *made)}}
            titles |= blocks.titles({test: titles[test] for test in tests}, titles["valid"])
        info = {
            "source": args.source,
            "target": args.target,
            "subwords": args.subwords,
            **entries,
            "max_length": str(args.max_length),
            "ratio": args.ratio,
            "command": args.command,
            "sets": titles,
            **({"document_tokens": args.document_tokens} if args.document_tokens else {}),
        }
        separator = [SEPARATOR] if args.document_tokens and args.like else []  # which their text may not have had
        finish(steps, way, split, info, given, [*args.add_tokens, *separator])


def check_newstest2014(path: Path) -> None:
    """Raises Failure if this is the filtered newstest2014."""
    if sum(1 for _ in lines.lines(path)) == FILTERED:
        raise Failure(
            f"{path}: {FILTERED} lines are the filtered newstest2014, whose scores do not compare with those of the "
            "papers: take the full one, 3,003 lines, as scripts/download.sh does"
        )


def blocks_step(steps: Preparation, way: Text, tests: Mapping[str, Any]) -> None:
    """The step that makes sets of blocks: of the training set, and those that :func:`.blocks.names` gives."""
    args, langs, tokens = steps.args, (steps.args.source, steps.args.target), steps.folder / way.tokens

    def work() -> None:
        write_json(steps.folder / "blocks.json", blocks.write_training_blocks(tokens, langs, args.document_tokens))
        blocks.write_test_blocks(steps.folder, way.tokens, langs, tests)

    made = [f"{way.tokens}/{name}.{lang}" for name in (SENTENCES, blocks.BLOCKS, *tests) for lang in langs]
    raw = [f"raw/{name}.{end}" for name in tests for end in (*langs, "json")]
    steps.step("blocks", [*made, *raw, "blocks.json"], work)


def main(argv: Sequence[str]) -> None:
    args = parse(argv, __doc__)
    if args.binarized:
        check_out(args.out, [args.binarized])
        logging.disable(logging.INFO)  # what fairseq says when it is imported
        from .binarized import take_in

        return take_in(args)
    prepare(args)
