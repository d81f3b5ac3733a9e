"""Moses tokens and joint BPE: those of the libraries' own commands, byte by byte, and text that they cannot split."""

import unicodedata

import pytest

from pipeline.command import Failure
from pipeline.prepared import Prepared
from pipeline.text.moses_bpe import MosesBPE, Tokenizer, check, keep_frequent, learn

from ...commands import ROOT, run

ODD = ["", "  two  spaces ", "a&b <c> |d| [e] 'f' \"g\"", "z.B. d.h. 3,5 %-Marke"]
ODD += ["\u201cquotes\u201d \u2013 dash\u2026", "tab\there\u200b"]


def own_command(text, *command):
    """What a library's own command makes of lines."""
    return run(*command, input="".join(f"{line}\n" for line in text)).stdout


def demo(lang, count):
    return (ROOT / f"data/demo/train.{lang}").read_text(encoding="utf-8").splitlines()[:count]


@pytest.mark.parametrize("lang, split", [("en", True), ("de", False)])
def test_tokens_are_those_of_the_librarys_own_command_byte_by_byte(lang, split):
    text = [*ODD, *demo(lang, 700), *ODD]
    plain = own_command(text, "sacremoses", "-q", "-l", lang, "normalize", "-c", "tokenize", *(["-a"] if split else []))
    assert "".join(f"{line}\n" for line in Tokenizer(lang, split)(text)) == plain


def test_codes_vocabularies_and_subwords_are_those_of_the_librarys_own_commands_byte_by_byte(tmp_path):
    paths, texts = [tmp_path / f"train.{lang}" for lang in ("en", "de")], []
    for path in paths:
        texts.append(["", "  \u00e4 \u00e4\u00f6 x\u00a0y ", *demo(path.suffix[1:], 600)])
        path.write_text("".join(f"{line}\n" for line in texts[-1]), encoding="utf-8")
    plain, made = ([tmp_path / f"{name}.{lang}" for lang in ("en", "de")] for name in ("plain", "made"))
    command = ["subword-nmt", "learn-joint-bpe-and-vocab", "--symbols", "90", "--input", *paths]
    own_command([], *command, "--output", tmp_path / "plain", "--write-vocabulary", *plain)
    sizes = learn(paths, 90, tmp_path / "codes", 3, made)
    assert (tmp_path / "codes").read_bytes() == (tmp_path / "plain").read_bytes() and sizes["merges"] == 90
    assert sizes["words"]["train.en"]["tokens"] == sum(1 for line in texts[0] for word in line.split(" ") if word)
    for path, expected, text in zip(made, plain, texts):
        counts, known = (sorted(file.read_text(encoding="utf-8").splitlines()) for file in (path, expected))
        assert counts == known  # words of the same count stand in any order
        bpe = MosesBPE.read(tmp_path / "codes", "")
        keep_frequent(bpe, path, 200)
        rare = ["--vocabulary", path, "--vocabulary-threshold", 200]
        subwords = own_command(text, "subword-nmt", "apply-bpe", "--codes", tmp_path / "codes", *rare)
        assert "".join(f"{bpe.process_line(line)}\n" for line in text) == subwords
        assert subwords != own_command(text, "subword-nmt", "apply-bpe", "--codes", tmp_path / "codes")


def test_a_model_folder_splits_with_the_threshold_of_its_preparation(tmp_path):
    (tmp_path / "bpecodes").write_text("#version: 0.2\na b</w>\n")
    (tmp_path / "vocabulary.en").write_text("c 9\nab 1\n")
    for threshold, tokens in {0: "ab", 1: "ab", 2: "a@@ b"}.items():
        way = MosesBPE(tmp_path, Prepared(vocabulary_threshold=threshold), "en", "de")
        way.load("")
        assert way.split(["ab"]) == [tokens]


UNSEGMENTED = {
    "zh": ["他说:“是的,就是这样。”", "2023年,有许多人去了北京和上海……", "是的。"],
    "th": ["ฉันไปโรงเรียนทุกวัน", "เขาพูดว่าใช่แล้วก็ไป"],
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
    for lang, lines in SEGMENTED.items():
        check(lang, lines)


def test_marks_that_moses_tears_off_are_told(capsys):
    text = ["Vous avez pass\u00e9 l'\u00e9t\u00e9 \u00e0 la mer"] * 9
    check("fr", text)
    assert not capsys.readouterr().err
    check("fr", [unicodedata.normalize("NFD", line) for line in text])
    assert "train.fr: Moses splits 36 combining marks from their letters" in capsys.readouterr().err
    for lang, line, said in (("uk", "Це п'ять слів.", True), ("ca", "L\u2019home d'or", True), ("it", "L'uomo", False)):
        check(lang, [line] * 9)
        assert ("apostrophes from their words" in capsys.readouterr().err) == said
