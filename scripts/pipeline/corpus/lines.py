"""Reads, checks and copies lines of text, alone or in pairs, and joins sentences. It needs no fairseq.

The name of a corpus is its path without the language: ``train`` stands for ``train.en`` and ``train.de`` (or ``.gz``).
"""

from collections import Counter
from contextlib import ExitStack
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Callable, Dict, Hashable, Iterable, Iterator, List, Mapping, Sequence, Tuple

from tqdm import tqdm

from ..command import Failure
from ..files import raw_lines, replacing, replacing_folder, write_json
from ..text.base import one_line
from .signs import check_signs

MAX_LENGTH = 100_000
"""Characters of a line at most: no sentence has more, and later tools would spend hours on it."""

Pair = Tuple[str, str]


def find(prefix: str, end: str, remedy: str = "check the folder and the languages") -> Path:
    """The file ``PREFIX.END`` or ``PREFIX.END.gz``; the end is mostly a language."""
    found = each_once([Path(f"{prefix}.{end}"), Path(f"{prefix}.{end}.gz")])
    if not found:
        raise Failure(f"{prefix}.{end} not found (nor with .gz): {remedy}")
    return found[0]


def each_once(paths: Iterable[Path]) -> List[Path]:
    """The files among these paths; raises Failure if ``FILE.gz`` is beside ``FILE``: which of them is meant?"""
    files = [path for path in paths if path.is_file()]
    for file in files:
        if (packed := file.with_name(f"{file.name}.gz")) in files:
            raise Failure(f"{file} and {packed} are both there: remove one")
    return files


def lines(path: Path) -> Iterator[str]:
    """The lines of a UTF-8 file, plain or gzipped; only a newline ends a line, other breaks become spaces."""
    for number, line in enumerate(raw_lines(path), 1):
        if len(line) > MAX_LENGTH:
            raise Failure(f"{path}, line {number}: {len(line):,} characters: is it text? Break it into lines")
        yield one_line(line)


def pairs(prefix: str, langs: Tuple[str, str]) -> Iterator[Pair]:
    """The sentence pairs of a parallel corpus."""
    paths = [find(prefix, lang) for lang in langs]
    sides = [lines(path) for path in paths]
    count = 0
    for count, (source, target) in enumerate(zip_longest(*sides), 1):
        if source is None or target is None:
            shorter = paths[0 if source is None else 1]
            raise Failure(f"{shorter} has {count - 1} lines, the other side more: the two sides must be aligned")
        yield source, target
    if count == 0:
        raise Failure(f"{paths[0]} and {paths[1]} are empty: a corpus needs at least one pair")


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
    copy: Callable[[str, Path, Tuple[str, str]], Dict[str, Any]] = copy_pairs,
) -> None:
    """Replaces the folder ``out`` by checked copies of corpora, with their numbers of pairs as ``NAME.json``.

    Args:
        prefixes: NAME to corpus.
        copy: writes one corpus, and returns its numbers.
    """
    with replacing_folder(out) as folder:
        counts = {name: copy(prefix, folder / name, langs) for name, prefix in prefixes.items()}
        write_counts(folder, langs, counts, lambda prefix: filter(any, pairs(str(prefix), langs)))


def write_counts(
    folder: Path,
    langs: Sequence[str],
    counts: Mapping[str, Dict[str, Any]],
    items: Callable[[Path], Iterable[Hashable]],
) -> None:
    """Looks at the copies of all sets, and writes the numbers of each as ``NAME.json``.

    Those of other sets than ``train`` also say how many of their items are in ``train``.
    """
    if "train" in counts:
        others = {name: Counter(items(folder / name)) for name in counts if name != "train"}
        shared = set().union(*others.values()).intersection(items(folder / "train"))
        for name, found in others.items():
            counts[name]["in_train"] = sum(found[item] for item in shared)
    for name, numbers in counts.items():
        check_signs(folder / name, langs, numbers["pairs" if len(langs) > 1 else "lines"])
        write_json(folder / f"{name}.json", numbers)


def join(prefix: str, out: str, langs: Tuple[str, str], sentences: int) -> None:
    """Joins each ``sentences`` consecutive pairs to one: a test set with the same text in longer sentences.

    If too few pairs remain at the end, they are left out.
    """
    each = pairs(prefix, langs)
    groups = iter(lambda: list(zip(*islice(each, sentences))), [])
    joined = ((" ".join(source), " ".join(target)) for source, target in groups if len(source) == sentences)
    write_pairs(out, langs, joined)
