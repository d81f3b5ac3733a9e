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
import os
import shlex
from contextlib import contextmanager
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from ..command import Failure, Parser, check_name, run, say, to_path, whole_number
from ..files import read_as, read_json, sha256, write_json
from ..languages import language
from ..lock import AS_LONG_AS_IT_TAKES, locked
from ..prepared import NAME, Prepared, remove_damaged
from ..steps import STAMPS
from ..text import TEXTS
from ..text.base import Text
from ..text.preparation import Preparation
from ..text.segments import SEPARATOR
from . import blocks, lines, summary
from .cleaning import clean
from .wmt14 import check_newstest2014

OPTIONS = tuple(option for way in TEXTS.values() for option in way.options)
FROM_TEXT = (
    "train",
    "merges",
    "vocabulary",
    "vocabulary-threshold",
    "max-length",
    "ratio",
    "like",
    "add-tokens",
    "document-tokens",
)
"""Options that are about raw text: binarised data were made without them."""

MOST_DROPPED = 0.1
"""The share of the training pairs that the default of ``--ratio`` may drop: above it, the user decides."""

LOOKED_AT = 10000
"""The lines of a training set that tell whether it can be split."""


def parse(argv: Sequence[str], doc: Optional[str] = None) -> argparse.Namespace:
    """The options of ``scripts/prepare.sh``; those of a way of splitting are None if they follow from the text."""
    parser = Parser(doc)
    for name, text in (("train", "training"), ("valid", "validation")):
        text = f"the {text} set: PREFIX.en and PREFIX.de, also with .gz"
        parser.add_argument(f"--{name}", action="append", metavar="PREFIX", help=text)
    tests = "a test set; repeat it for more: fairseq's test, test1, test2, ..."
    parser.add_argument("--test", action="append", default=[], metavar="PREFIX", help=tests)
    for side, lang in (("source", "en"), ("target", "de")):
        text = f"{side} language (default: {lang})"
        parser.add_argument(f"--{side}", type=language, default=lang, metavar="LANG", help=text)
    ways = [name for name, way in TEXTS.items() if way.applies_to not in (("text",), ("like",))]
    add_options(
        parser,
        ways,
        "bpe: Moses tokens and subword-nmt (default); sentencepiece: raw text in any script, no other tokeniser; "
        "none: only for --binarized",
    )
    like = "split with what DATA or a model folder has learned, and take its dictionaries"
    parser.add_argument("--like", type=to_path, metavar="FOLDER", help=like)
    more = "types to add at the ends of the dictionaries, one a line: languages' tags, for example"
    parser.add_argument("--add-tokens", type=to_path, metavar="FILE", help=more)
    text = (
        "the text has documents, with empty lines between them, or as PREFIX.tsv: train on blocks of 1, 2, 4, ... "
        "segments with at most N subwords"
    )
    parser.add_argument("--document-tokens", type=whole_number(1), metavar="N", help=text)
    most = "drop training pairs with more subwords than this on a side (default: 250)"
    parser.add_argument("--max-length", type=whole_number(1), default=250, metavar="N", help=most)
    uneven = (
        "drop training pairs whose longer side has more than X times the subwords of the other, or none (default: 1.5 "
        "with bpe, if that drops no more than a tenth of the pairs; none with sentencepiece)"
    )
    parser.add_argument("--ratio", type=ratio, metavar="X", help=uneven)
    own = parser.add_argument_group("data that you binarised yourself, in place of --train and --valid")
    own.add_argument("--binarized", type=to_path, metavar="BIN", help="--destdir of your fairseq-preprocess")
    codes = "your BPE codes or model of SentencePiece, to translate"
    own.add_argument("--codes", type=to_path, metavar="FILE", help=codes)
    args = parser.parse_args(argv)
    given = given_options(argv)
    if args.source == args.target:
        parser.error(f"--source and --target are both '{args.source}': name two languages")
    for name in ("train", "valid"):
        if len(getattr(args, name) or []) > 1:
            parser.error(f"--{name} is given twice: join its texts to one")
        setattr(args, name, (getattr(args, name) or [None])[0])
    if args.binarized:
        if raw := [option for option in given if option in FROM_TEXT]:
            parser.error(f"--{raw[0]} is for raw text: leave it out with --binarized")
        if not args.subwords:
            parser.error(f"--binarized needs --subwords, which says how you split the text: {', '.join(ways)}")
        if args.codes and not TEXTS[args.subwords].codes:
            parser.error(f"--codes is not for --subwords {args.subwords}, which learns none")
    else:
        if missing := [f"--{name}" for name in ("train", "valid", "test") if name not in given]:
            parser.error(f"the following arguments are required: {', '.join(missing)}")
        if args.codes or args.subwords == "none":
            parser.error(f"{'--codes' if args.codes else '--subwords none'} is for --binarized")
    if args.like and (mine := [name for name in given if name in (*OPTIONS, "subwords", "binarized")]):
        parser.error(f"--{mine[0]} is not for --like, which splits as before: leave it out")
    args.ratio_given = args.ratio is not None
    if args.like:
        adopt(args)
    completed(parser, args, "prepare.sh", argv)
    args.ratio = args.ratio or TEXTS[args.subwords].ratio
    return args


def adopt(args: argparse.Namespace) -> None:
    """Completes the options with those of the folder of ``--like``.

    Raises:
        Failure: it has no text that was prepared for translation, or other languages.
    """
    if not (args.like / NAME).is_file():
        raise Failure(f"--like {args.like}: no {NAME} there: name a folder of prepare.sh or average.sh")
    info = read_as(args.like / NAME, Dict[str, Any], "prepare it again")
    args.subwords = info.get("subwords", "bpe")
    ours = args.subwords == "marian" or "cleaned" in info
    if args.subwords not in TEXTS or not TEXTS[args.subwords].codes or not ours:
        raise Failure(
            f"--like {args.like}: its text was not split by prepare.sh: give --subwords and the like yourself"
        )
    if missing := [lang for lang in (args.source, args.target) if not dictionary(args.like, lang).is_file()]:
        raise Failure(f"--like {args.like}: no dictionary of {missing[0]} there: give its --source and --target")
    args.merges, args.vocabulary = (int(info[name]) if name in info else None for name in ("merges", "pieces"))
    args.keep_hyphens = info.get("hyphens") == "kept" and args.subwords == "bpe"
    args.vocabulary_threshold = int(info.get("vocabulary_threshold") or 0) or None


def dictionary(folder: Path, lang: str) -> Path:
    """The dictionary of a language in prepared data or a model folder."""
    name = f"dict.{lang}.txt"
    return folder / "bin" / name if (folder / "bin").is_dir() else folder / name


def added_tokens(args: argparse.Namespace) -> List[str]:
    """The types of ``--add-tokens``.

    Raises:
        Failure: a line has none or several.
    """
    if args.add_tokens is None:
        return []
    tokens = args.add_tokens.read_text(encoding="utf-8").splitlines()
    if odd := [number for number, line in enumerate(tokens, 1) if len(line.split()) != 1]:
        raise Failure(f"{args.add_tokens}, line {odd[0]}: not one token")
    return [line.strip() for line in tokens]


def ratio(text: str) -> str:
    """For ``type=``: a ratio of lengths, as it was typed, or ``none``."""
    try:
        fits = text == "none" or 1 <= float(text) < float("inf")
    except ValueError:
        fits = False
    if not fits:
        raise argparse.ArgumentTypeError(f"must be a number, at least 1, or none, not '{text}'")
    return text


def given_options(argv: Sequence[str]) -> List[str]:
    """The names of the options that the user gave."""
    return [word[2:].split("=")[0] for word in argv if word.startswith("--")]


def add_options(parser: Parser, ways: Sequence[str], text: str) -> None:
    """Adds the options that both scripts have: how to split, how many processes, and the output."""
    parser.add_argument("--subwords", choices=ways, help=text)
    for way in ways:
        for option, settings in TEXTS[way].options.items():
            parser.add_argument(f"--{option}", **settings)
    parser.add_argument("--workers", type=whole_number(1), help="number of processes (default, at most: all cores)")
    parser.add_argument("--out", type=to_path, required=True, help="output folder: raw/, bin/, prepare.json and others")


def completed(parser: Parser, args: argparse.Namespace, script: str, argv: Sequence[str]) -> None:
    """Completes the options that both scripts have, and adds the command line as ``command``."""
    args.subwords = args.subwords or "bpe"
    for name, way in TEXTS.items():
        if others := [option for option in way.options if option in given_options(argv) and name != args.subwords]:
            parser.error(f"--{others[0]} is for --subwords {name}")
    cores = os.cpu_count() or 1
    if (args.workers or 0) > cores:
        say(f"--workers {args.workers}: this machine has {cores} cores, and as many work")
    args.workers = min(args.workers or cores, cores)
    args.command = shlex.join([f"scripts/{script}", *argv])


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
    ours = (out / STAMPS).is_dir() or (out / NAME).is_file()  # a copy may lack hidden files
    for name in ("raw", "tok", "bin", *(way.tokens for way in TEXTS.values() if way.tokens)):
        folder = out.resolve() / name
        if folder.exists() and not ours:
            raise Failure(f"{folder} would be replaced, and no preparation has made it: choose another --out")
        for path in (file.resolve() for file in given):
            if folder in (path, *path.parents):
                raise Failure(f"{path} is in a folder that would be replaced: choose another --out")


@contextmanager
def preparing(
    args: argparse.Namespace, langs: Sequence[str], sets: Sequence[str], train: Mapping[Path, Iterable[str]]
) -> Iterator[Tuple[Preparation, Text]]:
    """The steps of a preparation whose folder this process holds, and the way in which they split text.

    Args:
        train: the files of the training set, with their lines; of pairs, one for each language.

    Raises:
        Failure: the training set cannot be split in this way.
    """
    out = args.out.resolve()
    way = TEXTS[args.subwords](out, Prepared(), langs[0], langs[-1])
    for lang, (file, text) in zip(cycle(langs), train.items()):
        way.check(lang, str(file), islice(text, LOOKED_AT))
    with locked(out, AS_LONG_AS_IT_TAKES):
        remove_damaged(out)
        yield Preparation(out, args, langs, sets), way
    say(f"prepared: {args.out}")


def binarize_step(steps: Preparation, way: Text, outputs: Sequence[str], files: Mapping[str, str]) -> None:
    """The last step, which binarises the split text, and writes ``binarize.json``.

    Args:
        files: fairseq's name of each set, to that of the files with its tokens.
    """

    def work() -> None:
        logging.disable(logging.INFO)  # what fairseq says when it is imported
        from .binarize import binarize

        folder = steps.folder
        like, more = steps.args.like, added_tokens(steps.args)
        given = {lang: dictionary(like, lang) for lang in steps.langs} if like else {}
        counts = binarize(folder / way.tokens, steps.langs, files, folder / "bin", steps.args.workers, given, more)
        (folder / NAME).unlink(missing_ok=True)  # of other data, if a kill comes before the new one
        write_json(folder / "binarize.json", counts)

    steps.step("binarize", [*outputs, "binarize.json"], work)


def blocks_step(steps: Preparation, way: Text, most: int, tests: Mapping[str, Tuple[str, int]]) -> None:
    """The step that makes sets of blocks: of the training set, and ``tests`` as :func:`.blocks.names` gives them.

    Raises:
        Failure: the dictionaries of ``--like`` lack the separator.
    """
    like, (source, target) = steps.args.like, steps.langs
    if like and SEPARATOR not in added_tokens(steps.args):
        for lang in steps.langs:
            types = {line.split(" ")[0] for line in dictionary(like, lang).read_text(encoding="utf-8").splitlines()}
            if SEPARATOR not in types:
                raise Failure(f"--like {like}: no {SEPARATOR} in dict.{lang}.txt: give it in a file by --add-tokens")

    def work() -> None:
        tokens = steps.folder / way.tokens
        counts = blocks.write_training_blocks(tokens, (source, target), most)
        write_json(steps.folder / "blocks.json", counts)
        blocks.write_test_blocks(steps.folder, way.tokens, (source, target), tests)

    made = [f"{way.tokens}/{name}.{lang}" for name in (blocks.SENTENCES, blocks.BLOCKS, *tests) for lang in steps.langs]
    raw = [f"raw/{name}.{end}" for name in tests for end in (*steps.langs, "json")]
    steps.step("blocks", [*made, *raw, "blocks.json"], work)


def prepare(args: argparse.Namespace) -> None:
    """The steps from pairs of raw text to binarised data.

    Raises:
        Failure: the text cannot be used, or a tool fails.
    """
    langs, tests = (args.source, args.target), ["test", *(f"test{number}" for number in range(1, len(args.test)))]
    prefixes = dict(zip(["train", "valid", *tests], [args.train, args.valid, *args.test]))
    most_tokens = args.document_tokens
    tables = [blocks.table_of(prefix) if most_tokens else None for prefix in prefixes.values()]
    files = [table or lines.find(prefix, lang) for prefix, table in zip(prefixes.values(), tables) for lang in langs]
    check_out(args.out, files)
    for file in files:
        if "newstest2014" in file.name:
            check_newstest2014(str(file), sum(1 for _ in lines.lines(file)))
    hashes = [sha256(file) for file in files]
    sides = dict(zip(prefixes, zip(hashes[::2], hashes[1::2])))
    if twice := [name for name, side in sides.items() if list(sides.values()).count(side) > 1]:
        text_of = f"{prefixes[twice[1]]}: the text of {twice[0]} is that of {twice[1]}, too"
        raise Failure(f"{text_of}; give each of --train, --valid, --test its own")
    if most_tokens:
        examples = {Path(f"{prefixes['train']}.{lang}"): blocks.side(prefixes["train"], langs, lang) for lang in langs}
    else:
        examples = {file: lines.lines(file) for file in files[:2]}
    with preparing(args, langs, list(prefixes), examples) as (steps, way):
        out, tokens, pair = steps.folder, steps.folder / way.tokens, "-".join(langs)
        steps.setting(f"input {pair} {' '.join(hashes)}")  # trained runs know their data by the settings of all steps
        copies = [f"raw/{name}.{end}" for name in prefixes for end in (*langs, "json")]
        copy = blocks.copy_documents if most_tokens else lines.copy_pairs
        steps.step("copy", copies, lambda: lines.copy_sets(prefixes, out / "raw", langs, copy=copy))
        entries = way.prepare(steps)
        if args.like:
            steps.setting(f"dictionaries {' '.join(sha256(dictionary(args.like, lang)) for lang in langs)}")
        if more := added_tokens(args):
            steps.setting(f"tokens added {' '.join(more)}")
        if most_tokens:
            steps.setting(f"documents in blocks of 1, 2, 4, ... segments, at most {most_tokens} tokens")
        steps.setting(f"max-length {args.max_length} ratio {args.ratio}")

        def work() -> None:
            most, limit = 1.0 if args.ratio_given else MOST_DROPPED, float(args.ratio.replace("none", "inf"))
            source, target = str(tokens / "train"), str(tokens / "train.clean")
            sizes = read_json(out / "raw/train.json")["documents"] if most_tokens else ()
            write_json(out / "clean.json", clean(source, target, langs, args.max_length, limit, most, sizes))

        steps.step("clean", [*(f"{way.tokens}/train.clean.{lang}" for lang in langs), "clean.json"], work)
        split = {**{name: name for name in prefixes}, "train": "train.clean"}
        titles = {subset: Path(prefix).name for subset, prefix in prefixes.items()}
        if most_tokens:
            blocks_step(steps, way, most_tokens, blocks.names(tests))
            split |= {"train": blocks.BLOCKS, **{name: name for name in (blocks.SENTENCES, *blocks.names(tests))}}
            titles |= blocks.titles({test: titles[test] for test in tests})
        ends = [f"{pair}.{lang}.{end}" for lang in langs for end in ("bin", "idx")]
        binarized = [f"bin/{name}.{end}" for name in split for end in ends]
        binarize_step(steps, way, [*binarized, *(f"bin/dict.{lang}.txt" for lang in langs)], split)
        info = {
            "source": args.source,
            "target": args.target,
            "subwords": args.subwords,
            **entries,
            "max_length": str(args.max_length),
            "ratio": args.ratio,
            "command": args.command,
            "sets": titles,
            **({"document_tokens": most_tokens} if most_tokens else {}),
            **summary.collect(out, langs, args.subwords, way),
        }
        write_json(out / NAME, info)
        print(summary.summary(info))


def main(argv: Sequence[str]) -> None:
    args = parse(argv, __doc__)
    if args.binarized:
        check_out(args.out, [args.binarized])
        logging.disable(logging.INFO)  # what fairseq says when it is imported
        from .binarized import Binarized

        return Binarized(args).run()
    prepare(args)


if __name__ == "__main__":
    run(main)
