"""Language codes: their form, and what depends on a language. It imports nothing from this package."""

import argparse
import re
from typing import Sequence

FORM = re.compile(r"[A-Za-z0-9]+([-_][A-Za-z0-9]+)*")


def language(text: str) -> str:
    """For ``type=``: a language code. It becomes a part of file names, where dots separate the parts."""
    if not FORM.fullmatch(text):
        rule = "letters and digits, with - or _ between them, as in en, zh-CN or pt_BR"
        raise argparse.ArgumentTypeError(f"must be a language code ({rule}), not {text[:60]!a}")
    return text


def base(code: str) -> str:
    """The language without region or script: ``pt`` for ``pt-BR``."""
    return re.split("[-_]", code)[0].lower()


TOKENIZERS = {
    **dict.fromkeys(("zh", "zho", "cmn", "yue"), "zh"),
    **dict.fromkeys(("ja", "jpn"), "ja-mecab"),
    **dict.fromkeys(("ko", "kor"), "ko-mecab"),
    **dict.fromkeys(("th", "tha", "lo", "lao", "km", "khm", "my", "mya", "bo", "bod", "dz", "dzo"), "char"),
}
"""Language to sacreBLEU's tokeniser: its own choice where it has one, characters for the others without spaces."""


def tokenizer(code: str) -> str:
    """sacreBLEU's tokeniser for text in this language."""
    return TOKENIZERS.get(base(code), "13a")


def has_spaces(code: str) -> bool:
    """Whether spaces separate the words of the language."""
    return tokenizer(code) in ("13a", "ko-mecab")


SCRIPTS = {
    "LATIN": "en de fr es it pt nl sv da no nb nn fi is pl cs sk sl hr hu ro et lv lt tr vi id ms ca gl eu ga cy sq sw",
    "CYRILLIC": "ru uk be bg mk",
    "GREEK": "el",
    "ARABIC": "ar fa ur ps",
    "HEBREW": "he yi",
    "DEVANAGARI": "hi mr ne",
    "HANGUL": "ko",
    "THAI": "th",
    "CJK": "zh yue",
    "CJK HIRAGANA KATAKANA": "ja",
}
"""Scripts, as Unicode's names of letters begin, to the languages that are written in them alone."""


def scripts(code: str) -> Sequence[str]:
    """The scripts of a language; none if that is not known, or if it has several."""
    return next((names.split() for names, codes in SCRIPTS.items() if base(code) in codes.split()), [])
