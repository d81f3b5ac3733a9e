"""Learns joint BPE as ``subword-nmt learn-joint-bpe-and-vocab`` does, on several processors.

::

    bpe.py --input train.en train.de --merges 37000 --out bpecodes --workers 2 [--vocabularies vocab.en vocab.de]

The codes are those of subword-nmt's own command, byte by byte. Words are counted in parallel; learning from the counts
is the work of one process, in which the search for the most frequent pair, most of the time, is made faster. For the
vocabularies of the two sides the command applies the codes to the whole text; here they are applied to each word once,
and only when asked for. Imports nothing of this package.
"""

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Optional, Sequence

import subword_nmt.learn_bpe as library
from subword_nmt.apply_bpe import BPE

from ..files import write_text


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
        vocabularies: for each of ``paths`` a file that gets its subwords and their counts, the most frequent first, as
            ``subword-nmt apply-bpe --vocabulary`` reads them; or none.

    Raises:
        ValueError: there are no words.
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
        raise ValueError(f"no words in {', '.join(map(str, paths))}: nothing to learn BPE from")
    temporary = out.with_name(f"{out.name}.tmp")
    with temporary.open("w", encoding="utf-8", newline="\n") as codes:
        library.learn_bpe([f"{word} {count}" for word, count in words.items()], codes, merges, is_dict=True)
    learned = sum(1 for _ in temporary.open(encoding="utf-8", newline="\n")) - 1  # without the version
    for counts, path in zip(sides, vocabularies):
        write_vocabulary(counts, temporary, path)
    os.replace(temporary, out)
    return {"words": sizes, "types": len(words), "merges": learned}


def _max(items: Iterable[Any], key: Optional[Callable[[Any], Any]] = None) -> Any:
    """For the library: the pair with the largest (count, pair), without a call of ``key`` for each pair."""
    if key is None or not isinstance(items, dict):
        return max(items) if key is None else max(items, key=key)
    count, pair = max(zip(items.values(), items))
    assert key(pair) == (count, pair), "subword-nmt has another order of pairs than the version tested"
    return pair


library.max = _max  # before the builtin of that name, in this module only


def write_vocabulary(words: "Counter[str]", codes: Path, out: Path) -> None:
    """Writes how often each subword occurs in words of these counts."""
    subwords: Counter[str] = Counter()
    with codes.open(encoding="utf-8") as file:
        bpe = BPE(file)
    for word, count in words.items():
        for subword in bpe.segment_tokens([word]):
            subwords[subword] += count
    write_text(out, "".join(f"{subword} {count}\n" for subword, count in subwords.most_common()))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--input", type=Path, nargs="+", required=True, help="tokenised text")
    parser.add_argument("--merges", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True, help="the codes")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="(default: one for each processor)")
    parser.add_argument("--vocabularies", type=Path, nargs="+", default=[], help="a file for each input")
    args = parser.parse_args()
    try:
        print(json.dumps(learn(args.input, args.merges, args.out, args.workers, args.vocabularies)))
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
