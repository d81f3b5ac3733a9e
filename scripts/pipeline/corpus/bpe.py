"""Learns joint BPE as ``subword-nmt learn-joint-bpe-and-vocab`` does, on several processors.

The codes are those of subword-nmt's own command, byte by byte. Words are counted in parallel. One process learns from
the counts; this module makes its slowest part faster, the search for the most frequent pair. For the vocabularies of
the two sides, subword-nmt's command applies the codes to the whole text; this module applies them to each word once,
and only on request.
"""

import io
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Sequence

import subword_nmt.learn_bpe as library
from subword_nmt.apply_bpe import BPE

from ..command import Failure
from ..files import replacing, write_text
from ..progress import Progress


def count_words(path: Path, workers: int) -> "Counter[str]":
    """How often each space-separated word occurs in a UTF-8 file."""
    with path.open(encoding="utf-8") as lines:
        counts: Counter[str] = library.get_vocabulary(lines, num_workers=workers)
        return counts


def learn(
    paths: Sequence[Path], merges: int, out: Path, workers: int, vocabularies: Sequence[Path] = ()
) -> Dict[str, Any]:
    """Writes the codes to ``out``; returns the tokens and types of each file, and the number of merges.

    Args:
        vocabularies: none; or for each of ``paths`` a file to write its subwords to, with their counts, the most
            frequent first, as ``subword-nmt apply-bpe --vocabulary`` reads them.

    Raises:
        Failure: there are no words.
    """
    words: Counter[str] = Counter()
    sizes, sides = {}, []
    for path in paths:
        counts = count_words(path, workers)
        sizes[path.name] = {"tokens": sum(counts.values()), "types": len(counts)}
        words += counts
        if vocabularies:
            sides.append(counts)
    if not words:
        raise Failure(f"no words in {', '.join(map(str, paths))}: nothing to learn BPE from")
    if max(map(len, words)) == 1:
        raise Failure("no word has two characters, and BPE merges those of a word: give --subwords sentencepiece")
    with replacing(out) as file:
        codes = io.TextIOWrapper(file, encoding="utf-8", newline="\n", write_through=True)
        library.learn_bpe([f"{word} {count}" for word, count in words.items()], codes, merges, is_dict=True)
        codes.detach()
        written = Path(file.name)
        learned = sum(1 for _ in written.open(encoding="utf-8", newline="\n")) - 1  # without the version
        for counts, path in zip(sides, vocabularies):
            write_vocabulary(counts, written, path)
    return {"words": sizes, "types": len(words), "merges": learned}


def _max(items: Iterable[Any], key: Optional[Callable[[Any], Any]] = None) -> Any:
    """Replaces ``max`` in the library: finds the largest (count, pair) without a call of ``key`` for each pair."""
    if key is None or not isinstance(items, dict):
        return max(items) if key is None else max(items, key=key)
    count, pair = max(zip(items.values(), items))
    assert key(pair) == (count, pair), "subword-nmt has another order of pairs than the version tested"
    return pair


def _merges(numbers: range) -> Iterator[int]:
    """Replaces ``tqdm`` in the library, whose bar has no label."""
    progress = Progress("learn-bpe", len(numbers), "merges")
    for number in numbers:
        yield number
        progress.to(number + 1)
    progress.close()


library.max = _max  # shadows the builtin of that name in the library's module only
library.tqdm = _merges


def write_vocabulary(words: "Counter[str]", codes: Path, out: Path) -> None:
    """Writes how often each subword occurs, given the counts of words."""
    subwords: Counter[str] = Counter()
    with codes.open(encoding="utf-8") as file:
        bpe = BPE(file)
    for word, count in words.items():
        for subword in bpe.segment_tokens([word]):
            subwords[subword] += count
    write_text(out, "".join(f"{subword} {count}\n" for subword, count in subwords.most_common()))
