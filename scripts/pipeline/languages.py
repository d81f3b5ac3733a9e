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


CODES = (
    "ar ara arb, as asm, be bel, bg bul, bn ben, bo bod tib, ca cat, cs ces cze cz, cy cym wel, da dan dk, de deu ger, "
    "dz dzo, el ell gre gr, en eng, es spa, et est, eu eus baq, fa fas per pes, fi fin, fr fra fre, ga gle, gl glg, "
    "gu guj, he heb iw, hi hin, hr hrv, hu hun, id ind, is isl ice, it ita, ja jpn jp, km khm, kn kan, ko kor kr, "
    "lo lao, lt lit, lv lav lvs, mk mkd mac, ml mal, mr mar, ms msa may zsm, my mya bur, nb nob, ne nep npi, "
    "nl nld dut, nn nno, no nor, or ori ory, pa pan, pl pol, ps pus pbt, pt por, ro ron rum, ru rus, sk slk slo, "
    "sl slv, sq sqi alb als, sv swe, sw swa swh, ta tam, te tel, th tha, tr tur, uk ukr ua, ur urd, vi vie, "
    "yi yid ydd, zh zho chi cmn cn"
)
"""Each language in two letters, then its other codes: those of three, which FLORES has, and codes of countries that are
written in their place."""

SHORT = {other: short for short, *others in map(str.split, CODES.split(",")) for other in others}


def base(code: str) -> str:
    """The language without region or script, in two letters where it has such a code: ``pt`` for ``pt-BR``, ``fr`` for
    ``fra_Latn``."""
    first = re.split("[-_]", code)[0].lower()
    return SHORT.get(first, first)


TOKENIZERS = {
    **dict.fromkeys(("zh", "yue"), "zh"),
    **{"ja": "ja-mecab", "ko": "ko-mecab"},
    **dict.fromkeys(("th", "lo", "km", "my", "bo", "dz"), "char"),
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
