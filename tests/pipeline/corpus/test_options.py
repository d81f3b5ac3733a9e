"""The options of prepare.sh and prepare_text.sh: their defaults, and which do not go together."""

import pytest

from pipeline.command import Failure
from pipeline.corpus import prepare_text
from pipeline.corpus.prepare import parse
from pipeline.files import write_json
from pipeline.recipes import load_recipe, recipe_names
from pipeline.text import TEXTS
from pipeline.text.preparation import default_size
from pipeline.text.tokens import Tokens

SETS = ["--train", "a", "--valid", "b", "--test", "c", "--out", "d"]


def options(*words):
    return parse([*SETS, *words])


def test_the_size_follows_from_the_number_of_pairs():
    sizes = {4500000: 37000, 1000000: 37000, 999999: 16000, 29000: 8000, 6000: 2000, 400: 500, 1: 500}
    assert {pairs: default_size(pairs) for pairs in sizes} == sizes


@pytest.mark.parametrize(
    ("recipe", "line"),
    [
        *(("demo", "merges 600, max-length 250 ratio 3"), ("mix", "merges 16000, max-length 250 ratio 1.5")),
        *((name, "merges 8000, max-length 250 ratio 1.5") for name in ("multi30k", "multi30k_cpu")),
        *((name, "merges 37000, max-length 250 ratio 1.5") for name in recipe_names() if name.startswith("wmt14")),
    ],
)
def test_the_settings_of_a_recipe_are_those_of_its_committed_results(recipe, line):
    args = options(*load_recipe(recipe).prepare_options)
    assert f"merges {args.merges}, max-length {args.max_length} ratio {args.ratio}" == line
    assert (args.subwords, args.keep_hyphens, args.vocabulary_threshold) == ("bpe", False, 0)


def test_the_default_of_the_ratio_follows_from_the_way_of_splitting_and_is_a_careful_one():
    assert [options(*words).ratio for words in ([], ["--subwords", "sentencepiece"], ["--ratio", "none"])] == [
        *("1.5", "none", "none")
    ]
    assert options().most_dropped < options("--ratio", "1.5").most_dropped == 1


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ([*SETS, "--subwords", "sentencepiece", "--merges", "9"], "--merges"),
        ([*SETS, "--like", "x", "--merges", "9"], "--merges"),
        ([*SETS, "--codes", "x"], "--codes"),
        ([*SETS, "--train", "other"], "--train"),
        ([*SETS, "--target", "en"], "--target"),
        (["--binarized", "x", "--subwords", "bpe", "--train", "a", "--out", "d"], "--train"),
    ],
)
def test_options_that_would_be_ignored_are_refused(capsys, words, named):
    with pytest.raises(SystemExit) as ended:
        parse(words)
    assert ended.value.code == 2 and named in capsys.readouterr().err


def test_tokens_to_add_may_be_a_file_of_windows(tmp_path):
    (tmp_path / "tags").write_bytes("\ufeff<2de>\r\n<2fr>\r\n".encode())
    assert options("--add-tokens", str(tmp_path / "tags")).add_tokens == ["<2de>", "<2fr>"]


def test_text_has_three_sets_or_a_part_is_held_out():
    for words in ([], ["--hold-out", "5", "--test", "a"], ["--test", "a"], ["--hold-out", "0"]):
        with pytest.raises(SystemExit):
            prepare_text.parse(["--train", "a", "--out", "d", *words])


def test_text_is_split_as_in_a_folder_of_prepare_sh_also_in_a_way_that_learns_nothing(tmp_path, monkeypatch):
    monkeypatch.setitem(TEXTS, "words", type("Words", (Tokens,), {"applies_to": ("pairs",)}))
    for lang in ("en", "de"):
        (tmp_path / f"dict.{lang}.txt").write_text("a 1\n")
    write_json(tmp_path / "prepare.json", {"subwords": "words", "cleaned": {}})
    assert options("--like", str(tmp_path)).subwords == "words"
    write_json(tmp_path / "prepare.json", {"subwords": "none"})  # with --binarized, it was the user who split it
    with pytest.raises(Failure, match=r"--like .*--binarized"):
        options("--like", str(tmp_path))
