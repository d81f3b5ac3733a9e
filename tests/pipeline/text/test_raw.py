"""A raw reference that is not the text that was binarised stops the scoring, in every language."""

import random

import pytest

from pipeline.command import Failure
from pipeline.text.detokenize import detokenize
from pipeline.text.moses_bpe import Tokenizer
from pipeline.text.raw import check_raw

from ...commands import ROOT
from ..scoring.fake import SENTENCES

LANGUAGES = {
    "de": SENTENCES,
    "fr": ["L'été, il n'y a qu'«une» œuvre à 1 000 € !", "Qu'est-ce que c'est, n° 5 ?", "Aujourd'hui, dit-il…"],
    "cs": ["Muž v modré košili stojí na žebříku.", "Říká: „Ano, je to tak“, a odešel.", "V roce 2012 to bylo 3,5 %."],
    "ru": ["Он сказал: «Да, это так», и ушёл.", "В 2012 году - 3,5% больше...", "Что-то случилось № 7."],  # noqa: RUF001
    "zh": ["他说:“是的,就是这样。”", "2023年,3.5%的人去了北京……", "(原告)王某某、李某某与ABC公司。"],
    "ja": ["「はい」と彼は言った、でも…", "私は2023年に東京へ行きました。", "カフェでコーヒーを3杯飲んだ。"],
    "ko": ['그는 "안녕하세요"라고 말했다.', "나는 학교에 갑니다.", "2012년 3,5% 증가했다."],
    "hi": ["वह स्कूल जाता है।", "क्या आप हिन्दी बोलते हैं?", "२०१२ में ३.५% अधिक।"],
    "ar": ["ذهب الولد إلى المدرسة.", "قال: «نعم، هكذا هو».", "في عام 2012 كان 3,5%؟"],
    "th": ["ฉันไปโรงเรียนทุกวัน", "เขาพูดว่า “ใช่” แล้วก็ไป", "ในปี 2012 เพิ่มขึ้น 3.5%"],
    "en": ["It's the Joneses' £1,000 dog-house.", '"No," he said [see p. 3 | 4].', "AT&T <b> a@b.c &amp; @-@ x @@ y"],
}


def check(targets, references, lang="de"):
    check_raw(detokenize(targets, lang), references, ROOT / "raw/test.de", "run prepare.sh again")


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_text_that_was_binarised_is_recognised_in_every_language_and_swapped_lines_stop(lang):
    first, second, third = lines = LANGUAGES[lang]
    for split_hyphens in (True, False):
        tokens = Tokenizer(lang, split_hyphens)(lines)
        check(tokens, lines, lang)
        with pytest.raises(Failure, match=r"raw/test.de: 2 of 3 lines .* line 1 is .*prepare.sh again"):
            check(tokens, [second, first, third], lang)


def test_unknown_words_stand_for_anything():
    chance = random.Random(1)
    lines = (ROOT / "data/demo/test.de").read_text(encoding="utf-8").splitlines()[:100]
    targets = [[w if chance.random() > 0.4 else "<<unk>>" for w in x.split()] for x in Tokenizer("de", True)(lines)]
    check([" ".join(words) for words in targets], lines)
    check(["<<unk>> <<unk>>", "a<<unk>>"], ["北京 — Ελλάδα", "aß"])


@pytest.mark.parametrize("target", ["<<unk>> hund", "hund <<unk>>", "d <<unk>> hund <<unk>> e"])
def test_what_is_known_beside_an_unknown_word_must_be_there(target):
    with pytest.raises(Failure, match="1 of 1 lines"):
        check([target], ["die katze"])


def test_one_odd_line_among_a_thousand_is_no_other_text():
    lines = [f"Satz {i} von vielen." for i in range(2000)]
    targets = Tokenizer("de", True)(lines)
    check(targets, [*lines[:-2], "★ ganz anders ★", "auch"])
    with pytest.raises(Failure, match=r"3 of 2000 lines .*line 1998"):
        check(targets, [*lines[:-3], "Nein!", "★ ganz anders ★", "auch"])
