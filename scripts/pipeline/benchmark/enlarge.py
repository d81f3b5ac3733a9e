"""Makes a large parallel corpus of a small one, to measure preparation at size. Imports nothing of this package.

::

    enlarge.py PREFIX OUT --source en --target de --copies 13

Copy 0 is the corpus; in copy N, N is appended to each rare word (at most ``--rare`` times in its side of the corpus),
so that word types grow with the text as they do in a real one, while the frequent words stay.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import List

from ..corpus.text import CorpusError, find, lines


def enlarge(prefix: str, out: str, lang: str, copies: int, rare: int) -> int:
    """Writes ``OUT.LANG``; returns its number of lines."""
    text: List[List[str]] = [line.split(" ") for line in lines(find(prefix, lang))]
    counts = Counter(word for words in text for word in words)
    varied = {word for word, count in counts.items() if count <= rare and word.isalpha()}
    with Path(f"{out}.{lang}").open("w", encoding="utf-8", newline="\n") as file:
        for copy in range(copies):
            suffix = str(copy) if copy else ""
            for words in text:
                file.write(" ".join(word + suffix if word in varied else word for word in words) + "\n")
    return copies * len(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("prefix", help="path of the corpus without its language suffix")
    parser.add_argument("out", help="path of the output without its language suffix")
    parser.add_argument("--source", required=True, help="source language")
    parser.add_argument("--target", required=True, help="target language")
    parser.add_argument("--copies", type=int, default=13, help="(default: 13)")
    parser.add_argument("--rare", type=int, default=20, help="occurrences (default: 20)")
    args = parser.parse_args()
    try:
        for lang in (args.source, args.target):
            print(f"{args.out}.{lang}: {enlarge(args.prefix, args.out, lang, args.copies, args.rare):,} lines")
    except (CorpusError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
