"""What prepare.sh and prepare_text.sh share: how to split, where to write, the last step, and the numbers of all."""

import logging
import os
import shlex
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Hashable, Iterator, Mapping, Sequence, Set, Tuple

from ..command import Failure, Parser, say, to_path, whole_number
from ..files import read_json, sha256, write_json
from ..lock import AS_LONG_AS_IT_TAKES, locked
from ..prepared import NAME, Prepared, file_sizes, forget_damaged
from ..provenance import versions
from ..steps import STAMPS
from ..text import TEXTS
from ..text.base import Text
from ..text.preparation import Preparation

TEXT_UNITS = ("documents", "lines", "bytes")


def add_splitting(parser: Parser, kind: str) -> None:
    """Adds the option that says how to split, and unless the user has split the text, those of each way.

    Args:
        kind: one of :attr:`.Text.applies_to`.
    """
    ways, own = {name: way for name, way in TEXTS.items() if kind in way.applies_to}, kind == "binarized"
    text = "how you split words" if own else "how to split words (default: bpe; sentencepiece suits any script)"
    parser.add_argument("--subwords", choices=list(ways), default="bpe", required=own, help=text)
    for name, way in ways.items() if not own else ():
        group = parser.add_argument_group(f"with --subwords {name}")
        for option, settings in way.options.items():
            group.add_argument(f"--{option}", **settings)


def parsed(parser: Parser, script: str, argv: Sequence[str]) -> Any:
    """The values of all options, those that both scripts have included; ``command`` is the command line."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1  # of this job
    text = "number of processes (default, at most: all cores)"
    parser.add_argument("--workers", type=whole_number(1), default=cores, help=text)
    parser.add_argument("--out", type=to_path, required=True, help="output folder: raw/, bin/, prepare.json and others")
    args = parser.parse_args(argv)
    given = {word.partition("=")[0] for word in argv}
    for name, way in TEXTS.items() if "subwords" in args else ():
        for option in way.options:
            if f"--{option}" in given and name != args.subwords:
                parser.error(f"--{option} is for --subwords {name}")
    args.workers = min(args.workers, cores)
    args.command = shlex.join([f"scripts/{script}", *argv])
    return args


def check_out(out: Path, given: Sequence[Path]) -> None:
    """Raises Failure if a preparation in ``out`` would destroy files of others, or those that it reads (``given``)."""
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
    """Raises Failure if two sets have the same text; ``sets`` has for each its texts to their hashes."""
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
    """The dictionary of a language in prepared data or a model folder; of all languages, if there is no other one."""
    from fairseq_rope.checkpoints.model_folder import dictionary_path  # imports fairseq

    return dictionary_path(folder / "bin" if (folder / "bin").is_dir() else folder, lang)


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

    pair = "-".join(steps.langs)
    ends = [f".{pair}.{lang}.idx" for lang in steps.langs] if len(steps.langs) > 1 else [".idx"]
    steps.step("binarize", ["binarize.json", *(f"bin/{name}{end}" for name in files for end in ends)], work)
    info |= collect(folder, steps.langs, steps.args.subwords, way)
    write_json(folder / NAME, info)
    print(summary(info))


def collect(folder: Path, langs: Sequence[str], subwords: str, way: Text) -> Dict[str, Any]:
    """Sizes of the sets, what cleaning dropped, tokens and types before and after splitting, versions, hashes.

    For text: documents, lines, bytes and tokens of each set. A line end is a byte and a token.
    """
    subsets = {path.stem: read_json(path) for path in sorted((folder / "raw").glob("*.json"))}
    binarised = read_json(folder / "binarize.json")
    pairs = len(langs) > 1
    info: Dict[str, Any] = {
        unit: {name: counts[unit] for name, counts in subsets.items()} for unit in (["pairs"] if pairs else TEXT_UNITS)
    }
    info["in_train"] = {name: counts["in_train"] for name, counts in subsets.items() if counts.get("in_train")}
    if pairs:
        info["cleaned"] = read_json(folder / "clean.json")
        if "documents" in subsets["train"]:
            info["documents"] = {name: len(counts["documents"]) for name, counts in subsets.items()}
            info["blocks"] = read_json(folder / "blocks.json")
    else:
        info["tokens"] = {name: sides[langs[0]]["tokens"] for name, sides in binarised.items()}
    if way.codes:
        info[subwords] = read_json(folder / f"{subwords}.json")
    dictionaries = sorted(folder.glob("bin/dict*.txt"))
    with dictionaries[0].open(encoding="utf-8") as lines:
        info["vocabulary"] = sum(1 for _ in lines)  # without fairseq's four special symbols
    info["binarised"] = binarised
    raw = sorted(path for path in (folder / "raw").iterdir() if path.name.split(".")[-1] in langs)
    learned = [folder / name for name in way.files(langs)]
    info["sha256"] = {path.name: sha256(path) for path in [*learned[:1], *dictionaries, *learned[1:], *raw]}
    info["file_sizes"] = file_sizes(folder)
    info["versions"] = versions()
    return info


def summary(info: Dict[str, Any]) -> str:
    """The numbers as a few lines of text."""
    lines = [f"{unit}: {_listed(info[unit])}" for unit in ("pairs", *TEXT_UNITS) if unit in info]
    unit = "pairs" if "pairs" in info else "documents"
    lines += [f"{name}: {n:,} of its {unit} are in the training set, too" for name, n in info["in_train"].items()]
    if cleaned := info.get("cleaned"):
        dropped = {name.removeprefix("dropped_"): n for name, n in cleaned.items() if name.startswith("dropped_")}
        lines.append(f"training pairs kept: {cleaned['kept']:,} of {cleaned['pairs']:,} (dropped: {_listed(dropped)})")
    if "blocks" in info:
        lines.append(f"training blocks: {_listed(info['blocks'])}")
    learned = {**info.get(info["subwords"], {}), "vocabulary": info["vocabulary"]}
    lines.append(_listed({name: number for name, number in learned.items() if isinstance(number, (int, float))}))
    for name, sides in info["binarised"].items():
        tokens = ", ".join(f"{lang} {n['tokens']:,} ({n['unknown']:,} unknown)" for lang, n in sides.items())
        lines.append(f"tokens of {name}: {tokens}")
    return "\n".join(lines)


def _listed(counts: Dict[str, float]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items())
