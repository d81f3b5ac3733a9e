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

SEED = 20
SIZES = {"train": 6000, "valid": 300, "test": 500, "test_long": 300}
LONGEST_IN_TRAINING = 22  # English words; test_long has more
LONGEST = 40
SHORTEST = 3


@dataclass(frozen=True)
class Noun:
    en: str
    en_plural: str
    de: str
    de_plural: str
    gender: str  # m, f, n


@dataclass(frozen=True)
class Verb:
    en: str  # third person singular
    en_base: str  # plural and infinitive
    de: str
    de_plural: str  # also the infinitive
    case: str = "acc"  # of the object; "" for none
    prefix: str = ""  # separable


def _nouns(text: str) -> List[Noun]:
    return [Noun(*line.split()) for line in text.strip().splitlines()]


BEINGS = _nouns("""
man men Mann Männer m
woman women Frau Frauen f
child children Kind Kinder n
teacher teachers Lehrer Lehrer m
doctor doctors Arzt Ärzte m
girl girls Mädchen Mädchen n
king kings König Könige m
queen queens Königin Königinnen f
friend friends Freund Freunde m
aunt aunts Tante Tanten f
uncle uncles Onkel Onkel m
sister sisters Schwester Schwestern f
brother brothers Bruder Brüder m
baker bakers Bäcker Bäcker m
farmer farmers Landwirt Landwirte m
dog dogs Hund Hunde m
cat cats Katze Katzen f
horse horses Pferd Pferde n
bird birds Vogel Vögel m
cow cows Kuh Kühe f
sheep sheep Schaf Schafe n
mouse mice Maus Mäuse f
""")
BEINGS = [noun for noun in BEINGS if noun.en != noun.en_plural]  # "the sheep" would leave the number open

THINGS = _nouns("""
book books Buch Bücher n
letter letters Brief Briefe m
apple apples Apfel Äpfel m
flower flowers Blume Blumen f
picture pictures Bild Bilder n
key keys Schlüssel Schlüssel m
lamp lamps Lampe Lampen f
knife knives Messer Messer n
ring rings Ring Ringe m
cup cups Tasse Tassen f
""")

PLACES = _nouns("""
garden gardens Garten Gärten m
house houses Haus Häuser n
kitchen kitchens Küche Küchen f
forest forests Wald Wälder m
school schools Schule Schulen f
village villages Dorf Dörfer n
tower towers Turm Türme m
bridge bridges Brücke Brücken f
""")

COMPOUND_PARTS = [  # English modifier, German modifier with its linking element
    ("silver", "Silber"),
    ("wood", "Holz"),
    ("city", "Stadt"),
    ("winter", "Winter"),
    ("children's", "Kinder"),
    ("stone", "Stein"),
]

ADJECTIVES = [
    tuple(pair.split())
    for pair in (
        "old alt,young jung,small klein,big groß,tired müde,happy fröhlich,poor arm,rich reich,strange seltsam,"
        "beautiful schön,sad traurig,wise weise,wild wild,quiet still,red rot,blue blau"
    ).split(",")
]

TRANSITIVE = [
    Verb("sees", "see", "sieht", "sehen"),
    Verb("loves", "love", "liebt", "lieben"),
    Verb("seeks", "seek", "sucht", "suchen"),
    Verb("finds", "find", "findet", "finden"),
    Verb("knows", "know", "kennt", "kennen"),
    Verb("hears", "hear", "hört", "hören"),
    Verb("paints", "paint", "malt", "malen"),
    Verb("needs", "need", "braucht", "brauchen"),
    Verb("helps", "help", "hilft", "helfen", "dat"),
    Verb("thanks", "thank", "dankt", "danken", "dat"),
    Verb("trusts", "trust", "vertraut", "vertrauen", "dat"),
    Verb("follows", "follow", "folgt", "folgen", "dat"),
    Verb("calls", "call", "ruft", "rufen", "acc", "an"),
    Verb("collects", "collect", "holt", "holen", "acc", "ab"),
    Verb("invites", "invite", "lädt", "laden", "acc", "ein"),
    Verb("watches", "watch", "sieht", "sehen", "dat", "zu"),
    Verb("recognises", "recognise", "erkennt", "erkennen"),
    Verb("visits", "visit", "besucht", "besuchen"),
]
INTRANSITIVE = [
    Verb("sleeps", "sleep", "schläft", "schlafen", ""),
    Verb("laughs", "laugh", "lacht", "lachen", ""),
    Verb("sings", "sing", "singt", "singen", ""),
    Verb("waits", "wait", "wartet", "warten", ""),
    Verb("arrives", "arrive", "kommt", "kommen", "", "an"),
    Verb("departs", "depart", "fährt", "fahren", "", "ab"),
]
GIVING = [
    Verb("gives", "give", "gibt", "geben"),
    Verb("shows", "show", "zeigt", "zeigen"),
    Verb("brings", "bring", "bringt", "bringen"),
    Verb("sends", "send", "schickt", "schicken"),
]
SAYING = [
    Verb("says", "say", "sagt", "sagen", ""),
    Verb("believes", "believe", "glaubt", "glauben", ""),
    Verb("hopes", "hope", "hofft", "hoffen", ""),
]
MODALS = [
    Verb("can", "can", "kann", "können"),
    Verb("must", "must", "muss", "müssen"),
    Verb("should", "should", "soll", "sollen"),
    Verb("may", "may", "darf", "dürfen"),
]
TIMES = [("today", "heute"), ("tomorrow", "morgen"), ("now", "jetzt"), ("often", "oft"), ("never", "nie")]
FRONTED = TIMES[:4]  # "never" in front would also invert the English clause
PREPOSITIONS = [("in", "in"), ("behind", "hinter"), ("near", "bei"), ("before", "vor")]
CONJUNCTIONS = [("because", "weil"), ("if", "wenn"), ("although", "obwohl"), ("while", "während")]
COORDINATORS = [("and", "und"), ("but", "aber")]

ARTICLE = {
    "the": {"nom": "der die das die", "acc": "den die das die", "dat": "dem der dem den"},
    "a": {"nom": "ein eine ein -", "acc": "einen eine ein -", "dat": "einem einer einem -"},
    "this": {"nom": "dieser diese dieses -", "acc": "diesen diese dieses -", "dat": "diesem dieser diesem -"},
    "every": {"nom": "jeder jede jedes -", "acc": "jeden jede jedes -", "dat": "jedem jeder jedem -"},
    "my": {"nom": "mein meine mein meine", "acc": "meinen meine mein meine", "dat": "meinem meiner meinem meinen"},
    "no": {"nom": "kein keine kein keine", "acc": "keinen keine kein keine", "dat": "keinem keiner keinem keinen"},
}
RELATIVE = {"nom": "der die das die", "acc": "den die das die", "dat": "dem der dem denen"}
MIXED = {"a", "my", "no"}
COLUMNS = "mfnp"

ONES = (
    "one two three four five six seven eight nine".split(),
    "ein zwei drei vier fünf sechs sieben acht neun".split(),
)
TENS = ("twenty thirty forty fifty sixty".split(), "zwanzig dreißig vierzig fünfzig sechzig".split())


def number(value: int) -> Tuple[str, str]:
    """2 to 9 and 20 to 69 in words: ``34`` -> thirty-four, vierunddreißig."""
    tens, ones = divmod(value, 10)
    if not tens:
        return ONES[0][ones - 1], ONES[1][ones - 1]
    en, de = TENS[0][tens - 2], TENS[1][tens - 2]
    if ones:
        en, de = f"{en}-{ONES[0][ones - 1]}", f"{ONES[1][ones - 1]}und{de}"
    return en, de


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

    def noun_phrase(self, nouns: List[Noun], depth: int, plain: bool = False) -> Phrase:
        """Determiner or number, perhaps an adjective, a noun or compound, perhaps a relative clause."""
        noun = self.rng.choice(nouns)
        plural = self.chance(0.3)
        counted = plural and self.chance(0.5)
        if counted:
            en_det, de_number = number(self.rng.choice([*range(2, 10), *range(20, 70)]))
        else:
            en_det = self.rng.choice("the the my no".split() if plural else "the the the a this every my no".split())
        adjective = self.rng.choice(ADJECTIVES) if self.chance(0.45) else None
        compound = self.rng.choice(COMPOUND_PARTS) if nouns is not BEINGS and self.chance(0.35) else None
        en_words = [en_det, *([adjective[0]] if adjective else []), *([compound[0]] if compound else [])]
        en_words.append(noun.en_plural if plural else noun.en)
        column = COLUMNS.index("p" if plural else noun.gender)

        de = {}
        for case in ("nom", "acc", "dat"):
            determiner = de_number if counted else ARTICLE[en_det][case].split()[column]
            words = [determiner]
            if adjective:
                words.append(self._inflected(adjective[1], en_det, counted, case, column))
            words.append(self._declined(noun, compound, plural, case))
            de[case] = words
        phrase = Phrase(en_words, de, plural)
        if nouns is BEINGS and not plain and depth > 0 and self.chance(0.22):
            self._add_relative_clause(phrase, column, depth - 1)
        elif nouns is BEINGS and not plain and self.chance(0.1):
            self._coordinate(phrase)
        return phrase

    @staticmethod
    def _inflected(stem: str, determiner: str, counted: bool, case: str, column: int) -> str:
        """Weak, mixed or strong adjective ending."""
        kind, plural = COLUMNS[column], column == 3
        if counted:
            ending = "en" if case == "dat" else "e"
        elif plural or case == "dat" or (case == "acc" and kind == "m"):
            ending = "en"
        elif determiner in MIXED:
            ending = {"m": "er", "f": "e", "n": "es"}[kind]
        else:
            ending = "e"
        return stem.rstrip("e") + ending

    @staticmethod
    def _declined(noun: Noun, compound: Optional[Tuple[str, str]], plural: bool, case: str) -> str:
        word = noun.de_plural if plural else noun.de
        if plural and case == "dat" and word[-1] not in "ns":
            word += "n"
        return compound[1] + word.lower() if compound else word

    def _coordinate(self, phrase: Phrase) -> None:
        other = self.noun_phrase(BEINGS, 0, plain=True)
        phrase.en += ["and", *other.en]
        for case, words in phrase.de.items():
            phrase.de[case] = [*words, "und", *other.de[case]]
        phrase.plural = True

    def _add_relative_clause(self, phrase: Phrase, column: int, depth: int) -> None:
        verb = self.rng.choice(TRANSITIVE)
        other = self.noun_phrase(BEINGS, depth, plain=depth == 0)
        if self.chance(0.5):  # the head is the subject
            en = ["who", verb.en_base if phrase.plural else verb.en, *other.en]
            pronoun = RELATIVE["nom"].split()[column]
            de = [pronoun, *other.de[verb.case], verb.prefix + (verb.de_plural if phrase.plural else verb.de)]
        else:
            en = ["whom", *other.en, verb.en_base if other.plural else verb.en]
            pronoun = RELATIVE[verb.case].split()[column]
            de = [pronoun, *other.de["nom"], verb.prefix + (verb.de_plural if other.plural else verb.de)]
        phrase.en += en
        for case, words in phrase.de.items():
            phrase.de[case] = [*words, ",", *de, ","]

    def clause(self, depth: int) -> Clause:
        subject = self.noun_phrase(BEINGS, depth)
        kind = self.rng.random()
        en_objects: List[str] = []
        de_objects: List[str] = []
        if kind < 0.6:
            verb = self.rng.choice(TRANSITIVE)
            thing = self.noun_phrase(THINGS if verb.case == "acc" and self.chance(0.2) else BEINGS, depth)
            en_objects, de_objects = thing.en, thing.de[verb.case]
        elif kind < 0.78:
            verb = self.rng.choice(GIVING)
            receiver, gift = self.noun_phrase(BEINGS, 0, plain=True), self.noun_phrase(THINGS, 0)
            en_objects, de_objects = receiver.en + gift.en, receiver.de["dat"] + gift.de["acc"]
        else:
            verb = self.rng.choice(INTRANSITIVE)
        place_en: List[str] = []
        if self.chance(0.25):
            preposition, place = self.rng.choice(PREPOSITIONS), self.noun_phrase(PLACES, 0)
            place_en = [preposition[0], *place.en]
            de_objects = [*de_objects, preposition[1], *place.de["dat"]]

        if self.chance(0.2):
            modal = self.rng.choice(MODALS)
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
            time = self.rng.choice(FRONTED)
            en, de = [time[0], *main.en], [time[1], *main.inverted]
        elif kind < 0.65:
            conjunction, other = self.rng.choice(CONJUNCTIONS), self.clause(depth)
            en, de = [*main.en, conjunction[0], *other.en], [*main.second, ",", conjunction[1], *other.final]
        elif kind < 0.75:
            conjunction, other = self.rng.choice(CONJUNCTIONS), self.clause(depth)
            en = [conjunction[0], *other.en, ",", *main.en]
            de = [conjunction[1], *other.final, ",", *main.inverted]
        elif kind < 0.88:
            speaker, verb = self.noun_phrase(BEINGS, 0, plain=True), self.rng.choice(SAYING)
            en = [*speaker.en, verb.en_base if speaker.plural else verb.en, "that", *main.en]
            de = [*speaker.de["nom"], verb.de_plural if speaker.plural else verb.de, ",", "dass", *main.final]
        else:
            coordinator, other = self.rng.choice(COORDINATORS), self.clause(depth)
            en, de = [*main.en, ",", coordinator[0], *other.en], [*main.second, ",", coordinator[1], *other.second]
        if depth > 1 and self.chance(0.5):
            coordinator, (more_en, more_de) = self.rng.choice(COORDINATORS), self.sentence(depth - 1)
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
