"""Cleans training sets: keeps the pairs whose lengths suit each other. It needs no fairseq."""

import math
from collections import Counter
from itertools import accumulate
from typing import Dict, Iterator, Sequence, Tuple

from ..command import Failure
from .lines import Pair, pairs, write_pairs


def clean(
    prefix: str,
    out: str,
    langs: Tuple[str, str],
    max_length: int,
    ratio: float,
    most: float = 1.0,
    documents: Sequence[int] = (),
) -> Dict[str, int]:
    """Keeps the pairs with 1 to ``max_length`` tokens on each side and a length ratio of at most ``ratio``.

    Lengths are in space-separated tokens. A pair that breaks several rules counts for the first one.

    Args:
        most: the share of pairs that may be dropped by their ratio.
        documents: the number of pairs of each document. Then an empty pair stands at the end of each, and in place of
            each pair that is dropped: the pairs between two empty ones follow each other.

    Returns:
        The numbers of pairs read, kept, and dropped by each rule.
    """
    ratios: Counter[float] = Counter()
    counts = {"pairs": 0, "kept": 0, "dropped_too_short": 0, "dropped_too_long": 0, "dropped_ratio": 0}
    ends = set(accumulate(documents))

    def rule(short: int, long: int) -> str:
        if short < 1:
            return "dropped_too_short"
        if long > max_length:
            return "dropped_too_long"
        ratios[round(long / short, 2)] += 1
        return "dropped_ratio" if long > ratio * short else "kept"

    def kept() -> Iterator[Pair]:
        for number, pair in enumerate(pairs(prefix, langs), 1):
            which = rule(*sorted(len(side.split()) for side in pair))
            counts["pairs"] += 1
            counts[which] += 1
            if which == "kept":
                yield pair
            if documents and (which != "kept" or number in ends):
                yield "", ""
        if counts["dropped_ratio"] > most * counts["pairs"]:
            ordered = sorted(ratios.elements())
            median, suits = ordered[len(ordered) // 2], math.ceil(ordered[len(ordered) * 19 // 20] * 10) / 10
            raise Failure(
                f"--ratio {ratio:g}, the default, would drop {counts['dropped_ratio']:,} of {counts['pairs']:,} pairs: "
                f"in the median, the longer side has {median:.2g} times the tokens of the other; give --ratio "
                f"{suits:g}, which keeps 19 of 20"
            )
        if not counts["kept"]:
            raise Failure(f"no pair of {prefix} is left after cleaning: relax --max-length or --ratio")

    write_pairs(out, langs, kept())
    return counts
