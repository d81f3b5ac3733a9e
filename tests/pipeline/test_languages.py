"""Languages of any code: they come from prepare.json, are checked when they are given, and choose the tokens."""

from argparse import ArgumentTypeError

import pytest

from pipeline.command import Failure
from pipeline.files import write_json
from pipeline.languages import TOKENIZERS, base, has_spaces, language, tokenizer
from pipeline.prepared import read_languages


def test_codes_of_any_standard_are_accepted_but_not_what_would_break_a_file_name():
    for code in ("en", "zh-CN", "pt_BR", "sr-Latn-RS", "en_XX", "gmh", "x1", "DE"):
        assert language(code) == code
    for odd in ("", "e.n", "../en", "-en", "en-", "en--US", "en\n", "e n", "中文", "en\0"):
        with pytest.raises(ArgumentTypeError):
            language(odd)


def test_text_of_a_region_is_tokenised_as_its_language():
    assert [base(code) for code in ("pt-BR", "zh_TW", "EN-us", "de", "gmh")] == ["pt", "zh", "en", "de", "gmh"]
    assert [base(code) for code in ("fra", "eng_Latn", "deu_Latn", "cmn-Hans", "jp")] == ["fr", "en", "de", "zh", "ja"]
    assert [tokenizer(code) for code in ("zh-CN", "ja", "ko", "th", "de", "pt-BR")] == [
        *("zh", "ja-mecab", "ko-mecab", "char", "13a", "13a")
    ]
    assert [code for code in TOKENIZERS if has_spaces(code)] == ["ko"] and has_spaces("pt-BR")


def test_the_languages_of_data_are_those_in_prepare_json_and_other_folders_are_told(tmp_path):
    (tmp_path / "bin").mkdir()
    with pytest.raises(Failure, match="has no prepared data"):
        read_languages(tmp_path)
    (tmp_path / "bin/dict.en.txt").touch()
    with pytest.raises(Failure, match="--binarized"):
        read_languages(tmp_path / "bin")
    write_json(tmp_path / "prepare.json", {"source": "en-GB", "target": "zh-CN"})
    assert read_languages(tmp_path) == ("en-GB", "zh-CN")
    with pytest.raises(Failure, match=f"give {tmp_path}$"):
        read_languages(tmp_path / "bin")
