"""The parts of the report about longer sentences: BLEU by source length, and what is kept of it on longer test sets."""

import re
from typing import Callable, Dict, List, Sequence

from .cells import NOT_RUN, label, mean_bleu, system_rows
from .comparison import length_table
from .document import Block, Code, Heading, Inline, Paragraph, Table, Text
from .systems import System, mean


def longer_sets(systems: Sequence[System], tests: Sequence[str]) -> List[str]:
    """The test sets that go with the first one and have longer sentences, the longest last.

    ``NAME_x2``, ``NAME_x4``: its sentences joined; ``NAME_long``: another text.
    """
    if not tests:
        return []
    longer = [test for test in tests[1:] if re.fullmatch(re.escape(tests[0]) + r"_(x\d+|long)", test)]
    return sorted(longer, key=lambda test: mean(source_words(systems, test)))


def source_words(systems: Sequence[System], test: str) -> List[int]:
    """Source length of each sentence of a test set that some system has, in words."""
    entries = [entry for system in systems for entry in system.tests(test).values()]
    return list(entries[0]["statistics"]["source_words"])


def kept(system: System, first: str, longer: str) -> Dict[int, float]:
    """BLEU on longer sentences in percent of the same run's BLEU on the first test set, by seed."""
    base, other = system.scores(first, "sacrebleu"), system.scores(longer, "sacrebleu")
    return {seed: 100 * other[seed] / base[seed] for seed in other if base.get(seed)}


def longer(systems: Sequence[System], tests: Sequence[str]) -> List[Block]:
    """What each system keeps of its BLEU where sentences are longer, most first."""
    sets = longer_sets(systems, tests)
    if not sets:
        return []
    first, longest = tests[0], sets[-1]

    def share(system: System, test: str) -> float:
        values = kept(system, first, test)
        return mean(values.values()) if values else -1.0

    run = [system for system in systems if system.runs]
    order = sorted(run, key=lambda system: -share(system, longest))

    def cells(system: System) -> List[Text]:
        row: List[Text] = [f"{mean_bleu(system, first):.2f}" if system.scores(first, "sacrebleu") else NOT_RUN]
        for test in sets:
            row.append(f"{mean_bleu(system, test):.2f}" if system.scores(test, "sacrebleu") else NOT_RUN)
            row.append(f"{share(system, test):.1f}%" if share(system, test) >= 0 else "")
        return row

    header: List[Text] = ["system", Code(first)]
    for test in sets:
        header += [Code(test), "kept"]
    table = Table(header, system_rows(order, cells, len(header) - 1))
    reading = _reading([system for system in order if share(system, longest) >= 0], first, longest, share)
    return [Heading(3, "Longer sentences"), Paragraph(_texts(systems, first, sets)), Paragraph(reading), table]


def _texts(systems: Sequence[System], first: str, sets: Sequence[str]) -> List[Inline]:
    """How long the sentences are, and whether it is the same text."""
    text: List[Inline] = ["Source length in words, mean and longest: "]
    for i, test in enumerate([first, *sets]):
        words = source_words(systems, test)
        text += ["; " if i else "", Code(test), f" {mean(words):.1f} and {max(words):,}"]
    text.append(".")
    for test in sets:
        joined = re.fullmatch(r"_x(\d+)", test[len(first) :])
        text += [" ", Code(test)]
        text += [" is the text of ", Code(first)] if joined else [" is another text than ", Code(first)]
        text.append(f", {joined[1]} sentences in one." if joined else ": more than the length may differ.")
    return text


def _reading(ranked: Sequence[System], first: str, longest: str, share: Callable[[System, str], float]) -> List[Inline]:
    """Who keeps most and least, and what a share does not say."""
    text: List[Inline] = ["Kept: sacreBLEU in percent of the same run's on ", Code(first), ", mean over seeds."]
    if len(ranked) > 1:
        most, least = ranked[0], ranked[-1]
        text += [" On ", Code(longest), " ", *label(most), f" keeps most, {share(most, longest):.1f}%, and "]
        text += [*label(least), f" least, {share(least, longest):.1f}%."]
    return [*text, " The share is no measure of quality: of a bad score much can be kept."]


def by_length(systems: Sequence[System], test: str) -> List[Block]:
    """The table of BLEU by source length on one test set."""
    header, values = length_table(systems, test)
    if not header:
        return []
    places = {id(system): row for system, row in zip(systems, values)}

    def cells(system: System) -> List[Text]:
        row = places[id(system)]
        return [f"{value:.2f}" for value in row] if row else [NOT_RUN, *[""] * (len(header) - 1)]

    title: Text = ["BLEU by source length on ", Code(test)]
    reading = "sacreBLEU of the sentences whose source has so many words, mean over seeds; their number is in brackets."
    columns = [f"{words} ({sentences:,})" for words, sentences in header]
    table = Table(["system", *columns], system_rows(systems, cells, len(columns)))
    return [Heading(3, title), Paragraph(reading), table]
