"""Reads, checks and copies lines of text, alone or in pairs, and joins sentences. It needs no fairseq.

The name of a corpus is its path without the language: ``train`` stands for ``train.en`` and ``train.de`` (or ``.gz``).
"""

import gzip
import zlib
from collections import Counter
from contextlib import ExitStack
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Callable, Dict, Hashable, Iterable, Iterator, Mapping, Optional, Sequence, Tuple

from tqdm import tqdm

from ..command import Failure
from ..files import replacing, replacing_folder, write_json
from ..text.base import SPACES
from .signs import check_signs

MAX_BYTES = 100_000
"""The longest line in bytes: no sentence is longer, and later tools would spend hours on a longer one."""

Pair = Tuple[str, str]


class CorpusError(Failure):
    """The input cannot be used; the message names the file and the remedy."""


def find(prefix: str, lang: str) -> Path:
    """The file of one side: ``PREFIX.LANG`` or ``PREFIX.LANG.gz``.

    Raises:
        CorpusError: both are missing.
    """
    for name in (f"{prefix}.{lang}", f"{prefix}.{lang}.gz"):
        if Path(name).is_file():
            return Path(name)
    raise CorpusError(f"{prefix}.{lang} not found (nor with .gz): check the folder and the languages")


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, plain or gzipped; only a newline ends a line, other breaks become spaces.

    Raises:
        CorpusError: :func:`raw_file` fails.
    """
    return (SPACES.sub(" ", line).strip() for line in raw_file(path))


def raw_file(path: Path, most: int = MAX_BYTES) -> Iterator[str]:
    """The lines of a UTF-8 file, plain or gzipped, as they are.

    Raises:
        CorpusError: a line, named by its number, is not UTF-8 or absurdly long, or a gzip file is damaged.
    """
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        try:
            yield from raw_lines(file.readline, str(path), most)
        except (EOFError, OSError, zlib.error) as error:
            raise CorpusError(f"{path}: cannot be read ({error}): copy or download it again") from None


def raw_lines(readline: Callable[[int], bytes], name: str, most: int = MAX_BYTES) -> Iterator[str]:
    """The lines of a UTF-8 file as they are, without their newlines and a byte order mark.

    Raises:
        CorpusError: a line that is not UTF-8 or absurdly long, named by its number.
    """
    for number, line in enumerate(iter(lambda: readline(most + 1), b""), 1):
        if len(line.rstrip(b"\n")) > most:
            raise CorpusError(f"{name}, line {number}: longer than {most:,} bytes: is it text? Break it into lines")
        try:
            yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\n")
        except UnicodeDecodeError as error:
            raise CorpusError(f"{name}, line {number}: not UTF-8 ({error.reason}): convert it with iconv") from None


def pairs(prefix: str, langs: Tuple[str, str]) -> Iterator[Pair]:
    """The sentence pairs of a parallel corpus.

    Raises:
        CorpusError: :func:`lines` fails, or the sides differ in length or are empty.
    """
    paths = [find(prefix, lang) for lang in langs]
    sides = [lines(path) for path in paths]
    count = 0
    for count, (source, target) in enumerate(zip_longest(*sides), 1):
        if source is None or target is None:
            shorter, longer = (0, 1) if source is None else (1, 0)
            more = count + sum(1 for _ in sides[longer])
            raise CorpusError(
                f"{paths[shorter]} has {count - 1} lines but {paths[longer]} has {more}: the two sides must be aligned"
            )
        yield source, target
    if count == 0:
        raise CorpusError(f"{paths[0]} and {paths[1]} are empty: a corpus needs at least one pair")


def write_pairs(out: str, langs: Tuple[str, str], sentence_pairs: Iterable[Pair]) -> int:
    """Writes both sides, ``OUT.LANG``, beside their targets and renames them together; returns the number of pairs."""
    count = 0
    with ExitStack() as stack:
        files = [stack.enter_context(replacing(Path(f"{out}.{lang}"))) for lang in langs]
        for pair in tqdm(sentence_pairs, Path(out).name, leave=False, disable=None, unit=" pairs"):
            count += 1
            for file, line in zip(files, pair):
                file.write(f"{line}\n".encode())
    return count


def copy_pairs(prefix: str, out: Path, langs: Tuple[str, str]) -> Dict[str, Any]:
    """Writes the pairs of a corpus as ``OUT.LANG``; returns their number."""
    return {"pairs": write_pairs(str(out), langs, pairs(prefix, langs))}


def copy_sets(
    prefixes: Mapping[str, str],
    out: Path,
    langs: Tuple[str, str],
    sizes: Optional[Mapping[str, int]] = None,
    copy: Callable[[str, Path, Tuple[str, str]], Dict[str, Any]] = copy_pairs,
) -> None:
    """Replaces the folder ``out`` by checked copies of corpora, with their numbers of pairs as ``NAME.json``.

    Those of other sets than ``train`` also say how many of their pairs are in ``train``.

    Args:
        prefixes: NAME to corpus.
        sizes: the numbers of pairs, for sets that were binarised before; those without text get their numbers, too.
        copy: writes one corpus, and returns its numbers.

    Raises:
        Failure: :func:`pairs` fails, or :func:`.signs.check_signs` refuses the text.
    """
    with replacing_folder(out) as temporary:
        for name, size in (sizes or {}).items():
            write_json(temporary / f"{name}.json", {"pairs": size})
        counts = {name: copy(prefix, temporary / name, langs) for name, prefix in prefixes.items()}
        for name, shared in in_train(lambda name: _lines_of_pairs(temporary / name, langs), list(counts)).items():
            counts[name]["in_train"] = shared
        for name in counts:
            check_signs(temporary / name, langs, counts[name]["pairs"])
            write_json(temporary / f"{name}.json", counts[name])


def in_train(items: Callable[[str], Iterator[Hashable]], names: Sequence[str]) -> Dict[str, int]:
    """How many items of each other set are in the training set, too.

    Args:
        items: reads the items of a set.
        names: the sets; without ``train``, there is nothing to count.
    """
    if "train" not in names:
        return {}
    others = {name: Counter(items(name)) for name in names if name != "train"}
    shared = set().union(*others.values()).intersection(items("train"))
    return {name: sum(count for item, count in found.items() if item in shared) for name, found in others.items()}


def _lines_of_pairs(prefix: Path, langs: Tuple[str, str]) -> Iterator[Tuple[bytes, ...]]:
    """The pairs of a checked copy but for those of two empty lines."""
    with ExitStack() as files:
        sides = [files.enter_context(Path(f"{prefix}.{lang}").open("rb")) for lang in langs]
        yield from (pair for pair in zip(*sides) if set(pair) != {b"\n"})


def join(prefix: str, out: str, langs: Tuple[str, str], sentences: int) -> None:
    """Joins each ``sentences`` consecutive pairs to one: a test set with the same text in longer sentences.

    If too few pairs remain at the end, they are left out.

    Raises:
        CorpusError: :func:`pairs` fails, or there are fewer pairs than ``sentences``.
    """

    def joined() -> Iterator[Pair]:
        each = pairs(prefix, langs)
        group = list(islice(each, sentences))
        if len(group) < sentences:
            raise CorpusError(f"{prefix} has {len(group)} pairs: too few to join {sentences}")
        while len(group) == sentences:
            yield " ".join(source for source, _ in group), " ".join(target for _, target in group)
            group = list(islice(each, sentences))

    write_pairs(out, langs, joined())
