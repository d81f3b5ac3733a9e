"""What ``scripts/prepare.sh`` and ``scripts/prepare_text.sh`` share: how to split, where to write, the last step."""

import logging
import os
import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Hashable, Iterator, Mapping, Sequence, Set, Tuple

from ..command import Failure, Parser, say, to_path, whole_number
from ..files import write_json
from ..lock import AS_LONG_AS_IT_TAKES, locked
from ..prepared import NAME, Prepared, forget_damaged
from ..steps import STAMPS
from ..text import TEXTS
from ..text.base import Text
from ..text.preparation import Preparation
from . import summary


def asks_for_help(argv: Sequence[str]) -> bool:
    return not {"-h", "--help"}.isdisjoint(argv)


def add_splitting(parser: Parser, kind: str, argv: Sequence[str]) -> None:
    """Adds the option that says how to split, and those of the way that is chosen; to be listed, of all ways.

    Args:
        kind: one of :attr:`.Text.applies_to`.
    """
    ways, own = [name for name, way in TEXTS.items() if kind in way.applies_to], kind == "binarized"
    first = Parser(None, add_help=False)
    text = "how you split words" if own else "how to split words (default: bpe; sentencepiece suits any script)"
    for each in (first, parser):
        each.add_argument("--subwords", choices=ways, default="bpe", required=own, help=text)
    chosen = first.parse_known_args(argv)[0].subwords
    for name in ways:
        if not own and (name == chosen or asks_for_help(argv)):
            group = parser.add_argument_group(f"with --subwords {name}")
            for option, settings in TEXTS[name].options.items():
                group.add_argument(f"--{option}", **settings)


def parsed(parser: Parser, script: str, argv: Sequence[str]) -> Any:
    """The values of all options, those that both scripts have included; ``command`` is the command line."""
    cores = os.cpu_count() or 1
    text = "number of processes (default, at most: all cores)"
    parser.add_argument("--workers", type=whole_number(1), default=cores, help=text)
    parser.add_argument("--out", type=to_path, required=True, help="output folder: raw/, bin/, prepare.json and others")
    args = parser.parse_args(argv)
    args.workers = min(args.workers, cores)
    args.command = shlex.join([f"scripts/{script}", *argv])
    return args


def check_out(out: Path, given: Sequence[Path]) -> None:
    """Raises Failure if a preparation in ``out`` would destroy files of others.

    Args:
        given: what it reads.
    """
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


def check_distinct(sets: Sequence[Mapping[Any, Hashable]]) -> None:
    """Raises Failure if two sets have the same text.

    Args:
        sets: for each, its texts to their hashes.
    """
    known: Set[Hashable] = set()
    for texts in sets:
        if twice := [name for name, digest in texts.items() if digest in known]:
            raise Failure(f"{twice[0]}: another set has this text too; give each of --train, --valid, --test its own")
        known.update(texts.values())


@contextmanager
def preparing(args: Any, langs: Sequence[str], sets: Sequence[str]) -> Iterator[Tuple[Preparation, Text]]:
    """The steps of a preparation whose folder this process holds, and the way in which they split text."""
    out = args.out.resolve()
    with locked(out, AS_LONG_AS_IT_TAKES):
        forget_damaged(out)
        yield Preparation(out, args, langs, sets), TEXTS[args.subwords](out, Prepared(), langs[0], langs[-1])
    say(f"prepared: {args.out}")


def dictionary(folder: Path, lang: str) -> Path:
    """The dictionary of a language in prepared data or a model folder."""
    name = f"dict.{lang}.txt"
    return folder / "bin" / name if (folder / "bin").is_dir() else folder / name


def finish(
    steps: Preparation,
    way: Text,
    files: Mapping[str, str],
    info: Dict[str, Any],
    like: Mapping[str, Path] = {},
    more: Sequence[str] = (),
) -> None:
    """The last step, which binarises the split text; then writes ``prepare.json``, and prints its numbers.

    Args:
        files: fairseq's name of each set, to that of the files with its tokens.
        info: the first entries of ``prepare.json``.
        like, more: dictionaries and types, as of :func:`.binarize.binarize`.
    """
    folder = steps.folder

    def work() -> None:
        logging.disable(logging.INFO)  # what fairseq says when it is imported
        from .binarize import binarize

        counts = binarize(folder / way.tokens, steps.langs, files, folder / "bin", steps.args.workers, like, more)
        (folder / NAME).unlink(missing_ok=True)  # of other data, if a kill comes before the new one
        write_json(folder / "binarize.json", counts)

    steps.step("binarize", ["bin", "binarize.json"], work)
    info |= summary.collect(folder, steps.langs, steps.args.subwords, way)
    write_json(folder / NAME, info)
    print(summary.summary(info))
