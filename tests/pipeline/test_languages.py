"""Languages of any code: they come from prepare.json, are checked when they are given, and choose the tokens."""

from argparse import ArgumentTypeError

import pytest

from pipeline.command import Failure
from pipeline.corpus.prepare import parse
from pipeline.files import write_json
from pipeline.languages import TOKENIZERS, base, has_spaces, language, tokenizer
from pipeline.prepared import read_languages
from pipeline.reproduce import parse as parse_sweep
from pipeline.sweep import Sweep


def test_codes_of_any_standard_are_accepted_but_not_what_would_break_a_file_name():
    for code in ("en", "zh-CN", "pt_BR", "sr-Latn-RS", "en_XX", "gmh", "x1", "DE"):
        assert language(code) == code
    for odd in ("", "e.n", "../en", "-en", "en-", "en--US", "en\n", "e n", "中文", "en\0"):
        with pytest.raises(ArgumentTypeError):
            language(odd)


def test_a_wrong_code_is_refused_where_it_is_given(capsys):
    with pytest.raises(SystemExit) as ended:
        parse(["--train", "a", "--valid", "b", "--test", "c", "--out", "d", "--target", "../en"])
    error = capsys.readouterr().err
    assert ended.value.code == 2 and error.count("\n") == 1 and "argument --target: must be a language code" in error


def named(folder, *names):
    (folder / "bin").mkdir(exist_ok=True)
    for name in names:
        (folder / "bin" / name).touch()
    return folder


def test_the_languages_of_data_are_those_in_prepare_json(tmp_path):
    write_json(tmp_path / "prepare.json", {"source": "en-GB", "target": "zh-CN"})
    assert read_languages(tmp_path) == ("en-GB", "zh-CN")


def test_a_part_of_prepared_data_is_told_from_data_that_the_user_binarised(tmp_path):
    named(tmp_path, "dict.en.txt")
    with pytest.raises(Failure, match=r"bin is a folder of fairseq-preprocess: run scripts/prepare\.sh --binarized"):
        read_languages(tmp_path / "bin")
    write_json(tmp_path / "prepare.json", {})
    with pytest.raises(Failure, match=rf"/bin is a part of prepared data: give {tmp_path}$"):
        read_languages(tmp_path / "bin")


def test_data_without_languages_are_no_prepared_data(tmp_path):
    for folder in (tmp_path / "none", named(tmp_path, "train.en.idx", "train.en-de.fr.idx")):
        with pytest.raises(Failure, match=r"has no prepared data: run scripts/prepare\.sh --out .* first"):
            read_languages(folder)


def test_text_of_a_region_is_tokenised_as_its_language():
    assert [base(code) for code in ("pt-BR", "zh_TW", "EN-us", "de")] == ["pt", "zh", "en", "de"]
    assert [tokenizer(code) for code in ("zh-CN", "ja", "ko", "th", "de", "pt-BR")] == [
        *("zh", "ja-mecab", "ko-mecab", "char", "13a", "13a")
    ]
    assert [code for code in TOKENIZERS if has_spaces(code)] == ["ko", "kor"] and has_spaces("pt-BR")


def test_joined_test_sets_are_in_the_languages_of_the_recipe(tmp_path):
    (tmp_path / "own.toml").write_text('extends = "multi30k"\n[data]\nsource = "pt-BR"\ntarget = "zh-CN"\n')
    for lang in ("pt-BR", "zh-CN"):
        (tmp_path / f"test_2016_flickr.{lang}").write_text("a\nb\n" * 2, encoding="utf-8")
    sweep = Sweep(parse_sweep([str(tmp_path / "own.toml"), "--data", str(tmp_path), "--out", str(tmp_path / "out")]))
    sweep.join()
    assert (tmp_path / "out/joined/test_2016_flickr_x2.zh-CN").read_text() == "a b\n" * 2
    options = [str(word) for word in sweep.prepare_options]
    assert options[options.index("--source") :][:4] == ["--source", "pt-BR", "--target", "zh-CN"]
