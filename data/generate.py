"""Generates the demo corpus: English sentences of a small grammar with their German translations.

Order carries the meaning: who does what to whom, and which adjective belongs to which noun, cannot be told from the
bag of words. The German side has the verb in second place in main clauses and at the end of subordinate ones,
separable verbs, modal verbs with a final infinitive, case and gender agreement of articles, adjectives and relative
pronouns, datives governed by verbs and prepositions, compounds, and numbers with the ones before the tens. Each English
sentence has exactly one German translation.

Run ``python data/generate.py`` to write ``data/demo``; the committed files are its output (seed 20).
"""

import argparse
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Optional, Tuple

import lexicon

SEED = 20
SIZES = {"train": 6000, "valid": 300, "test": 500, "test_long": 300}
LONGEST_IN_TRAINING = 22  # English words; test_long has more
LONGEST = 40
SHORTEST = 3


@dataclass
class Phrase:
    """A noun phrase: its English words, and its German words by case."""

    en: List[str]
    de: Dict[str, List[str]]
    plural: bool


@dataclass
class Clause:
    """A clause: English words, and German with the verb in second place, first (inverted) and last."""

    en: List[str]
    second: List[str]
    inverted: List[str]
    final: List[str]


class Grammar:
    """Draws sentence pairs from one random stream."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def noun_phrase(self, nouns: List[lexicon.Noun], depth: int, plain: bool = False) -> Phrase:
        """Determiner or number, perhaps an adjective, a noun or compound, perhaps a relative clause."""
        noun = self.rng.choice(nouns)
        plural = self.chance(0.3)
        counted = plural and self.chance(0.5)
        if counted:
            en_det, de_number = lexicon.number(self.rng.choice([*range(2, 10), *range(20, 70)]))
        else:
            en_det = self.rng.choice("the the my no".split() if plural else "the the the a this every my no".split())
        adjective = self.rng.choice(lexicon.ADJECTIVES) if self.chance(0.45) else None
        compound = (
            self.rng.choice(lexicon.COMPOUND_PARTS) if nouns is not lexicon.BEINGS and self.chance(0.35) else None
        )
        en_words = [en_det, *([adjective[0]] if adjective else []), *([compound[0]] if compound else [])]
        en_words.append(noun.en_plural if plural else noun.en)
        column = lexicon.COLUMNS.index("p" if plural else noun.gender)

        de = {}
        for case in ("nom", "acc", "dat"):
            determiner = de_number if counted else lexicon.ARTICLE[en_det][case].split()[column]
            words = [determiner]
            if adjective:
                words.append(self._inflected(adjective[1], en_det, counted, case, column))
            words.append(self._declined(noun, compound, plural, case))
            de[case] = words
        phrase = Phrase(en_words, de, plural)
        if nouns is lexicon.BEINGS and not plain and depth > 0 and self.chance(0.22):
            self._add_relative_clause(phrase, column, depth - 1)
        elif nouns is lexicon.BEINGS and not plain and self.chance(0.1):
            self._coordinate(phrase)
        return phrase

    @staticmethod
    def _inflected(stem: str, determiner: str, counted: bool, case: str, column: int) -> str:
        """Weak, mixed or strong adjective ending."""
        kind, plural = lexicon.COLUMNS[column], column == 3
        if counted:
            ending = "en" if case == "dat" else "e"
        elif plural or case == "dat" or (case == "acc" and kind == "m"):
            ending = "en"
        elif determiner in lexicon.MIXED:
            ending = {"m": "er", "f": "e", "n": "es"}[kind]
        else:
            ending = "e"
        return stem.rstrip("e") + ending

    @staticmethod
    def _declined(noun: lexicon.Noun, compound: Optional[Tuple[str, str]], plural: bool, case: str) -> str:
        word = noun.de_plural if plural else noun.de
        if plural and case == "dat" and word[-1] not in "ns":
            word += "n"
        return compound[1] + word.lower() if compound else word

    def _coordinate(self, phrase: Phrase) -> None:
        other = self.noun_phrase(lexicon.BEINGS, 0, plain=True)
        phrase.en += ["and", *other.en]
        for case, words in phrase.de.items():
            phrase.de[case] = [*words, "und", *other.de[case]]
        phrase.plural = True

    def _add_relative_clause(self, phrase: Phrase, column: int, depth: int) -> None:
        verb = self.rng.choice(lexicon.TRANSITIVE)
        other = self.noun_phrase(lexicon.BEINGS, depth, plain=depth == 0)
        if self.chance(0.5):  # the head is the subject
            en = ["who", verb.en_base if phrase.plural else verb.en, *other.en]
            pronoun = lexicon.RELATIVE["nom"].split()[column]
            de = [pronoun, *other.de[verb.case], verb.prefix + (verb.de_plural if phrase.plural else verb.de)]
        else:
            en = ["whom", *other.en, verb.en_base if other.plural else verb.en]
            pronoun = lexicon.RELATIVE[verb.case].split()[column]
            de = [pronoun, *other.de["nom"], verb.prefix + (verb.de_plural if other.plural else verb.de)]
        phrase.en += en
        for case, words in phrase.de.items():
            phrase.de[case] = [*words, ",", *de, ","]

    def clause(self, depth: int) -> Clause:
        subject = self.noun_phrase(lexicon.BEINGS, depth)
        kind = self.rng.random()
        en_objects: List[str] = []
        de_objects: List[str] = []
        if kind < 0.6:
            verb = self.rng.choice(lexicon.TRANSITIVE)
            thing = self.noun_phrase(
                lexicon.THINGS if verb.case == "acc" and self.chance(0.2) else lexicon.BEINGS, depth
            )
            en_objects, de_objects = thing.en, thing.de[verb.case]
        elif kind < 0.78:
            verb = self.rng.choice(lexicon.GIVING)
            receiver, gift = self.noun_phrase(lexicon.BEINGS, 0, plain=True), self.noun_phrase(lexicon.THINGS, 0)
            en_objects, de_objects = receiver.en + gift.en, receiver.de["dat"] + gift.de["acc"]
        else:
            verb = self.rng.choice(lexicon.INTRANSITIVE)
        place_en: List[str] = []
        if self.chance(0.25):
            preposition, place = self.rng.choice(lexicon.PREPOSITIONS), self.noun_phrase(lexicon.PLACES, 0)
            place_en = [preposition[0], *place.en]
            de_objects = [*de_objects, preposition[1], *place.de["dat"]]

        if self.chance(0.2):
            modal = self.rng.choice(lexicon.MODALS)
            en = [*subject.en, modal.en, verb.en_base, *en_objects, *place_en]
            finite, rest = (modal.de_plural if subject.plural else modal.de), [verb.prefix + verb.de_plural]
            last = [*rest, finite]
        else:
            en = [*subject.en, verb.en_base if subject.plural else verb.en, *en_objects, *place_en]
            finite, rest = (verb.de_plural if subject.plural else verb.de), [verb.prefix] if verb.prefix else []
            last = [verb.prefix + finite]
        nominative = subject.de["nom"]
        return Clause(
            en=en,
            second=[*nominative, finite, *de_objects, *rest],
            inverted=[finite, *nominative, *de_objects, *rest],
            final=[*nominative, *de_objects, *last],
        )

    def sentence(self, depth: int) -> Tuple[List[str], List[str]]:
        """One or several clauses: English and German words, commas as words of their own."""
        main = self.clause(depth)
        kind = self.rng.random()
        if kind < 0.3:
            en, de = main.en, main.second
        elif kind < 0.5:
            time = self.rng.choice(lexicon.FRONTED)
            en, de = [time[0], *main.en], [time[1], *main.inverted]
        elif kind < 0.65:
            conjunction, other = self.rng.choice(lexicon.CONJUNCTIONS), self.clause(depth)
            en, de = [*main.en, conjunction[0], *other.en], [*main.second, ",", conjunction[1], *other.final]
        elif kind < 0.75:
            conjunction, other = self.rng.choice(lexicon.CONJUNCTIONS), self.clause(depth)
            en = [conjunction[0], *other.en, ",", *main.en]
            de = [conjunction[1], *other.final, ",", *main.inverted]
        elif kind < 0.88:
            speaker, verb = self.noun_phrase(lexicon.BEINGS, 0, plain=True), self.rng.choice(lexicon.SAYING)
            en = [*speaker.en, verb.en_base if speaker.plural else verb.en, "that", *main.en]
            de = [*speaker.de["nom"], verb.de_plural if speaker.plural else verb.de, ",", "dass", *main.final]
        else:
            coordinator, other = self.rng.choice(lexicon.COORDINATORS), self.clause(depth)
            en, de = [*main.en, ",", coordinator[0], *other.en], [*main.second, ",", coordinator[1], *other.second]
        if depth > 1 and self.chance(0.5):
            coordinator, (more_en, more_de) = self.rng.choice(lexicon.COORDINATORS), self.sentence(depth - 1)
            en, de = [*en, ",", coordinator[0], *more_en], [*de, ",", coordinator[1], *more_de]
        return en, de


def write(words: List[str]) -> str:
    """Words to text: a/an, first letter raised, no doubled comma, punctuation attached, full stop."""
    words = [
        "an" if word == "a" and following[0] in "aeiou" else word for word, following in zip(words, [*words[1:], "."])
    ]
    text = " ".join([*words, "."]).replace(" , ,", " ,").replace(" , .", " .")
    text = text.replace(" ,", ",").replace(" .", ".")
    return text[0].upper() + text[1:]


def length(en: List[str]) -> int:
    return sum(word != "," for word in en)


def generate(seed: int = SEED) -> Dict[str, List[Tuple[str, str]]]:
    """The whole corpus: name of each set, to its pairs; no English sentence occurs twice."""
    rng = random.Random(seed)
    grammar = Grammar(rng)
    seen = set()
    corpus: Dict[str, List[Tuple[str, str]]] = {}
    for name, size in SIZES.items():
        long = name == "test_long"
        shortest, longest = (LONGEST_IN_TRAINING + 1, LONGEST) if long else (SHORTEST, LONGEST_IN_TRAINING)
        pairs: List[Tuple[str, str]] = []
        while len(pairs) < size:
            en_words, de_words = grammar.sentence(rng.choice([0, 0, 1, 2]) if not long else 3)
            pair = write(en_words), write(de_words)
            if shortest <= length(en_words) <= longest and pair[0] not in seen:
                seen.add(pair[0])
                pairs.append(pair)
        corpus[name] = pairs
    return corpus


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "demo", help="folder (default: data/demo)")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name, pairs in generate().items():
        for column, lang in enumerate(("en", "de")):
            text = "".join(pair[column] + "\n" for pair in pairs)
            (args.out / f"{name}.{lang}").write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
