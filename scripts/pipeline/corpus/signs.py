"""Signs that text is wrong although its form is right: cheap ones, each told in one line. It needs no fairseq.

Each threshold is above what good text has: Multi30k in four languages, newstest2013 and 2014, 347,000 pairs of the
recipe `mix`, 480,000 pairs of software manuals and 240 English books. The most that one of them had: misaligned none
of 1,910 windows, escaped 0.06%, split 2.6% (a part of `mix` is tokenised), lower-cased 2.9%, mojibake 0.02%, of
another script 0.001%, the same on both sides 0.14%, one line for many 0.42%.
"""

import re
import unicodedata
from array import array
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Callable, Dict, List, Sequence

import numpy as np

from ..command import Failure, say
from ..languages import scripts

SAMPLE = 100_000
"""Lines that are looked at one by one, at equal distances, or less than twice as many."""

LEAST = 5
"""Fewer lines are no sign of anything."""

WINDOW = 500
"""Pairs whose lengths are correlated, at least; in a smaller set all, unless it has less than a fifth of this."""

ESCAPED = re.compile(r"&(?:apos|quot|amp|lt|gt|nbsp|#\d{2,5}|#x[0-9A-Fa-f]{2,4});")
SPLIT = re.compile(r" [.,](?: |$)|@@(?: |$)|@-@|\u2581")
LATER = "".join(chr(byte) + bytes([byte]).decode("cp1252", "ignore") for byte in range(0x80, 0xC0))
"""Later bytes of characters in UTF-8, read as Latin-1 or Windows-1252."""
BROKEN = re.compile(f"[ÂÃ][{LATER}]|(?:[ÄÅÎ-ÑØÙ\xd7]|[à-ï](?!\xa0)[{LATER}])(?!\xa0)[{LATER}]|\ufffd")


@dataclass
class Sign:
    """A fault that lines or pairs can have."""

    fault: str
    """What is said of those that have it."""
    remedy: str
    told: float
    """The share of them that the user is told of."""
    ruins: float = 1.0
    """The share that makes training useless."""
    test: Callable[[str], object] = bool
    """Whether a line has it."""
    count: int = 0
    example: str = ""

    def add(self, number: int, line: str) -> None:
        """Counts a line that has it."""
        self.count += 1
        self.example = self.example or f", as in line {number}, '{line:.60}'"

    def tell(self, name: str, lines: int) -> None:
        """Tells the user if too many have it."""
        message = f"{name}: {self.count:,} of {lines:,} {self.fault}{self.example}: {self.remedy}"
        if self.count >= LEAST and self.count > self.ruins * lines:
            raise Failure(message)
        if self.count >= LEAST and self.count > self.told * lines:
            say(f"warning: {message}")


def check_signs(prefix: Path, langs: Sequence[str], lines: int) -> None:
    """Tells the user of signs that a checked copy of text, or of parallel text, is wrong.

    Args:
        prefix: ``PREFIX.LANG`` has the text.
        lines: how many it has.
    """
    step, lengths = lines // SAMPLE or 1, array("I")
    of_sides, of_pairs = [_line_signs(lang) for lang in langs], PairSigns()
    with ExitStack() as stack:
        files = [stack.enter_context(open(f"{prefix}.{lang}", encoding="utf-8", newline="\n")) for lang in langs]
        for number, ended in enumerate(zip(*files), 1):
            lengths.extend(map(len, ended))
            if number % step:
                continue
            sides = [line.rstrip("\n") for line in ended]
            for line, signs in zip(sides, of_sides):
                for sign in signs:
                    if sign.test(line):
                        sign.add(number, line)
            if len(sides) > 1 and all(sides):
                of_pairs.add(number, *sides)
    if len(langs) > 1:
        misaligned(np.array(lengths).reshape(-1, 2)).tell(prefix.name, lines)
    found = {f"{prefix.name}.{lang}": signs for lang, signs in zip(langs, of_sides)}
    for name, signs in {prefix.name: of_pairs.signs(), **found}.items():
        for sign in signs:
            sign.tell(name, lines // step)


def misaligned(lengths: "np.ndarray") -> Sign:
    """Windows in which the lengths of the sides go better together if one side is moved by some lines.

    Args:
        lengths: characters of both sides with the line's end, ``(pairs, 2)``.
    """
    sign, start = Sign("pairs are not aligned", "a line is missing or too many on one side", 0, 0.1), 0
    for window in np.array_split(np.log(lengths), max(1, len(lengths) // WINDOW)):
        source, target = (window - window.mean(axis=0)).T
        moved = np.correlate(source, target, "full")  # by 1 - T to T - 1 lines
        if len(window) >= WINDOW // 5 and moved.max() > moved[len(window) - 1] + 1e-6:
            sign.count += len(window)
            sign.example = sign.example or f", from line {start + 1} on or a little before"
        start += len(window)
    return sign


class PairSigns:
    """The signs of single pairs."""

    def __init__(self) -> None:
        self.same = Sign("pairs have the same sentence on both sides", "remove what is not translated", 0.01, 0.5)
        self.others: List[Dict[str, str]] = [{}, {}]
        self.repeated: Counter[str] = Counter()

    def add(self, number: int, source: str, target: str) -> None:
        if source == target and len(source.split()) > 3:
            self.same.add(number, source)
        for others, line, other in zip(self.others, (source, target), (target, source)):
            if others.setdefault(line, other) != other:
                self.repeated[line] += 1

    def signs(self) -> List[Sign]:
        remedy = "remove it if it is no translation"
        return [self.same] + [
            Sign(f"pairs have '{line:.60}' for different lines", remedy, 0.01, 0.5, count=count)
            for line, count in self.repeated.most_common(1)
        ]


def _line_signs(lang: str) -> List[Sign]:
    """The signs of single lines."""
    before, original = "give the text as it was before", "read the original in its own encoding"
    foreign = partial(_is_foreign, scripts(lang))
    return [
        Sign("lines are escaped", "unescape them, or they are escaped twice", 0.001, test=ESCAPED.search),
        Sign("lines are tokenised, or split into subwords", before, 0.05, test=SPLIT.search),
        Sign("lines begin in lower case", before, 0.05, test=_begins_small),
        Sign("lines have broken characters", original, 0.001, test=_is_broken),
        Sign(f"lines are not in the script of {lang}", "are languages or sides swapped?", 0.02, 0.5, foreign),
    ]


def _begins_small(line: str) -> bool:
    """Whether a sentence begins with a small letter, in a script with large ones."""
    return line[:1] != line[:1].title() and line[-1:] in (".", "!", "?")


def _is_broken(line: str) -> bool:
    return not line.isascii() and bool(BROKEN.search(line))


def _is_foreign(expected: Sequence[str], line: str) -> bool:
    """Whether most of the first letters are of other scripts."""
    if not expected or ("LATIN" in expected and line.isascii()):
        return False
    letters = [_script(character) for character in line[:40] if character.isalpha()]
    return 2 * sum(letter in expected for letter in letters) < len(letters)


@cache
def _script(letter: str) -> str:
    return unicodedata.name(letter, "").split(" ")[0]
