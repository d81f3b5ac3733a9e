"""Makes a large parallel corpus from a small one, to measure preparation at full size.

Copy 0 is the corpus itself. Copy N appends N to each rare word, so the number of types grows with the text as in a real
corpus, while the frequent words stay.
"""

from collections import Counter
from pathlib import Path
from typing import List

from ..corpus.text import find, lines


def enlarge(prefix: str, out: str, lang: str, copies: int, rare: int) -> int:
    """Writes ``OUT.LANG``; returns its number of lines.

    Args:
        rare: words that occur at most this often on their side of the corpus are varied.
    """
    text: List[List[str]] = [line.split(" ") for line in lines(find(prefix, lang))]
    counts = Counter(word for words in text for word in words)
    varied = {word for word, count in counts.items() if count <= rare and word.isalpha()}
    with Path(f"{out}.{lang}").open("w", encoding="utf-8", newline="\n") as file:
        for copy in range(copies):
            suffix = str(copy) if copy else ""
            for words in text:
                file.write(" ".join(word + suffix if word in varied else word for word in words) + "\n")
    return copies * len(text)
