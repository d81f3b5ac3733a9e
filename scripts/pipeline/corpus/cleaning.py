"""Cleans training sets: keeps the pairs whose lengths suit each other. It needs no fairseq."""

import math
from collections import Counter
from typing import Dict, Iterator, Tuple

from .text import CorpusError, pairs, write_pairs


def clean(
    prefix: str, out: str, langs: Tuple[str, str], min_length: int, max_length: int, ratio: float, most: float = 1.0
) -> Dict[str, int]:
    """Keeps the pairs with ``min_length`` to ``max_length`` tokens and a length ratio of at most ``ratio``.

    Lengths are in space-separated tokens. A pair that breaks several rules counts for the first one.

    Args:
        most: the share of pairs that may be dropped by their ratio.

    Returns:
        The numbers of pairs read, kept, and dropped by each rule.

    Raises:
        CorpusError: no pair is left, or too many would be dropped by their ratio.
    """
    ratios: Counter[float] = Counter()
    counts = {"pairs": 0, "kept": 0, "dropped_too_short": 0, "dropped_too_long": 0, "dropped_ratio": 0}

    def kept() -> Iterator[Tuple[str, str]]:
        for pair in pairs(prefix, langs):
            counts["pairs"] += 1
            short, long = sorted(len(side.split()) for side in pair)
            if short < min_length:
                counts["dropped_too_short"] += 1
                continue
            if long > max_length:
                counts["dropped_too_long"] += 1
                continue
            ratios[round(long / short, 2)] += 1
            if long > ratio * short:
                counts["dropped_ratio"] += 1
            else:
                counts["kept"] += 1
                yield pair
        if counts["dropped_ratio"] > most * counts["pairs"]:
            raise _unsuitable(ratio, counts["dropped_ratio"], ratios)

    if write_pairs(out, langs, kept()) == 0:
        relax = f"relax --max-length ({max_length})" + (f" or --ratio ({ratio:g})" if ratio < math.inf else "")
        raise CorpusError(f"no pair of {prefix} is left after cleaning: {relax}, or break the text into lines")
    return counts


def _unsuitable(ratio: float, dropped: int, ratios: "Counter[float]") -> CorpusError:
    """Says that a ratio does not suit a corpus, and which would.

    Args:
        ratios: how many pairs have each ratio.
    """
    ordered = sorted(ratios.elements())
    median, suits = ordered[len(ordered) // 2], math.ceil(ordered[len(ordered) * 19 // 20] * 10) / 10
    return CorpusError(
        f"--ratio {ratio:g}, the default, would drop {dropped:,} of {len(ordered):,} training pairs: in the median, "
        f"the longer side has {median:.2g} times the tokens of the other; give --ratio {suits:g}, which keeps 19 of "
        f"20, or --ratio none (--ratio {ratio:g} drops them nevertheless)"
    )
