"""The words of the demo corpus, English and German: nouns, verbs, determiners, numbers."""

from dataclasses import dataclass
from typing import List, Tuple


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
