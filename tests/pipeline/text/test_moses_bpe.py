"""Moses tokens and joint BPE: those of the libraries' own commands, byte by byte, and text that they cannot split."""

import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest

from pipeline.command import Failure
from pipeline.text.moses_bpe import Tokenizer, check, learn

from ...commands import ROOT

BIN = Path(sys.executable).parent
ODD = [
    "",
    "  two  spaces ",
    "a&b <c> |d| [e] 'f' \"g\"",
    "z.B. d.h. 3,5 %-Marke",
    "\u201cquotes\u201d \u2013 dash\u2026",
]
ODD += ["tab\there\u200b"]


@pytest.mark.parametrize("lang", ["en", "de"])
def test_tokens_are_those_of_the_librarys_own_command_byte_by_byte(lang):
    text = [*ODD, *(ROOT / f"data/demo/train.{lang}").read_text(encoding="utf-8").splitlines()[:700], *ODD]
    command = [BIN / "sacremoses", "-q", "-l", lang, "normalize", "-c", "tokenize", "-a"]
    given = "".join(f"{line}\n" for line in text).encode()
    plain = subprocess.run([str(c) for c in command], input=given, capture_output=True, check=True).stdout
    assert "".join(f"{line}\n" for line in Tokenizer(lang, True)(text)).encode() == plain


@pytest.mark.parametrize("workers", [1, 3])
def test_the_codes_and_vocabularies_are_those_of_the_librarys_own_command_byte_by_byte(tmp_path, workers):
    paths = []
    for lang in ("en", "de"):
        lines = (ROOT / f"data/demo/train.{lang}").read_text(encoding="utf-8").splitlines(keepends=True)[:600]
        paths.append(tmp_path / f"train.{lang}")
        paths[-1].write_text("".join(["\n", "  \u00e4 \u00e4\u00f6 x\u00a0y \n", *lines]), encoding="utf-8")
    plain, made = ([tmp_path / f"{name}.{lang}" for lang in ("en", "de")] for name in ("plain", "made"))
    command = [BIN / "subword-nmt", "learn-joint-bpe-and-vocab", "--symbols", "90", "--input", *paths]
    command += ["--output", tmp_path / "plain", "--write-vocabulary", *plain]
    subprocess.run([str(c) for c in command], check=True, capture_output=True)
    sizes = learn(paths, 90, tmp_path / "codes", workers, made)
    assert (tmp_path / "codes").read_bytes() == (tmp_path / "plain").read_bytes()
    for path, expected in zip(made, plain):
        counts, known = (sorted(file.read_text(encoding="utf-8").splitlines()) for file in (path, expected))
        assert counts == known  # words of the same count stand in any order
        numbers = [int(line.split()[1]) for line in path.read_text(encoding="utf-8").splitlines()]
        assert numbers == sorted(numbers, reverse=True) and max(numbers) > 1
    words = paths[0].read_text(encoding="utf-8").replace("\n", " ").split(" ")
    assert sizes["words"]["train.en"]["tokens"] == sum(1 for word in words if word)
    assert sizes["merges"] == 90


@pytest.mark.parametrize("text", ["\n\n", "a b\n"])
def test_text_without_words_or_pairs_is_refused_and_nothing_is_left(tmp_path, text):
    (tmp_path / "a").write_text(text)
    with pytest.raises(Failure, match="no word has two characters"):
        learn([tmp_path / "a"], 5, tmp_path / "codes", 1)
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


UNSEGMENTED = {
    "zh": ["他说:“是的,就是这样。”", "2023年,有许多人去了北京和上海……", "是的。"],
    "ja": ["「はい」と彼は言った。", "私は2023年に東京へ行きました。", "カフェでコーヒーを3杯飲んだ。"],
    "th": ["ฉันไปโรงเรียนทุกวัน", "เขาพูดว่าใช่แล้วก็ไป"],
    "km": ["ខ្ញុំទៅសាលារៀនរាល់ថ្ងៃ"],
}
SEGMENTED = {
    "zh": ["他 说 : “ 是 的 , 就 是 这样 。 ”", "2023 年 , 许多 人 去 了 北京 和 上海 ……"],
    "th": ["ฉัน ไป โรงเรียน ทุก วัน", "เขา พูด ว่า ใช่ แล้ว ก็ ไป"],
    "ko": ["나는 학교에 갑니다.", "그는 안녕하세요라고 말했다."],
    "de": ["Donaudampfschifffahrtsgesellschaftskapitän 北京", "Rindfleischetikettierungsüberwachungsaufgabe"],
    "en": ["The word 中国 means China."],
}


def test_text_without_spaces_is_told_before_anything_else():
    for lang, lines in UNSEGMENTED.items():
        with pytest.raises(Failure, match=rf"train\.{lang}: no spaces .*: give --subwords sentencepiece"):
            check(lang, lines)
    for lines in SEGMENTED.values():  # whatever its language is called
        check("zh", lines)


def test_marks_that_moses_tears_off_are_told(capsys):
    text = ["Vous avez pass\u00e9 l'\u00e9t\u00e9 \u00e0 la mer"] * 9
    check("fr", text)
    assert not capsys.readouterr().err
    check("fr", [unicodedata.normalize("NFD", line) for line in text])
    assert "train.fr: Moses splits 36 combining marks from their letters" in capsys.readouterr().err
