"""The options of prepare.sh: their defaults, and which do not go together."""

import pytest

from pipeline.corpus.cleaning import clean
from pipeline.corpus.prepare import parse
from pipeline.recipes import load_recipe, recipe_names
from pipeline.text.preparation import default_size

SETS = ["--train", "a", "--valid", "b", "--test", "c", "--out", "d"]


def options(*words):
    return parse([*SETS, *words])


def refused(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        parse(["--out", "d", *words])
    error = capsys.readouterr().err
    assert ended.value.code == 2 and error.count("\n") == 1
    return error


def test_the_size_follows_from_the_number_of_pairs():
    assert [default_size(n) for n in (4500000, 1000000, 999999, 100000, 29000, 10000, 6000, 1000, 400, 1)] == [
        *(37000, 37000, 16000, 16000, 8000, 8000, 2000, 2000, 500, 500)
    ]
    assert options().merges is None and options("--merges", "1").merges == 1


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
    assert (args.subwords, args.keep_hyphens, args.vocabulary_threshold) == ("bpe", False, None)


def test_the_command_is_that_of_the_script_also_within_another(monkeypatch):
    monkeypatch.setenv("SCRIPT", "reproduce.sh")
    assert options("--workers", "1").command == "scripts/prepare.sh --train a --valid b --test c --out d --workers 1"


def test_no_ratio_is_asked_of_pieces_in_two_scripts(tmp_path):
    args = options("--subwords", "sentencepiece")
    assert (args.ratio, options().ratio, options("--ratio", "none").ratio) == ("none", "1.5", "none")
    assert options("--ratio", "1.5").ratio_given and not options().ratio_given
    for lang, line in (("en", "a b c d e f g h"), ("zh", "x")):
        (tmp_path / f"train.{lang}").write_text(f"{line}\n")
    prefix, out = str(tmp_path / "train"), str(tmp_path / "clean")
    assert clean(prefix, out, ("en", "zh"), 250, float("inf"))["kept"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*SETS, "--subwords", "sentencepiece", "--merges", "9"], "--merges is for --subwords bpe"),
        ([*SETS, "--subwords", "sentencepiece", "--keep-hyphens"], "--keep-hyphens is for --subwords bpe"),
        ([*SETS, "--vocabulary", "9"], "--vocabulary is for --subwords sentencepiece"),
        ([*SETS, "--subwords", "none"], "--subwords none is for --binarized"),
        ([*SETS, "--codes", "x"], "--codes is for --binarized"),
        ([*SETS, "--ratio", "0.5"], "argument --ratio: must be a number, at least 1, or none, not '0.5'"),
        ([*SETS, "--ratio", "nan"], "not 'nan'"),
        ([*SETS, "--subwords", "sentencepiece", "--merges", "0"], "--merges: must be a whole number, at least 1"),
        ([*SETS, "--train", "other"], "--train is given twice: join its texts to one"),
        (["--train", "a"], "the following arguments are required: --valid, --test"),
        (["--binarized", "x"], "--binarized needs --subwords"),
        (["--binarized", "x", "--subwords", "bpe", "--merges", "9"], "--merges is for raw text"),
        (["--binarized", "x", "--subwords", "bpe", "--train", "9"], "--train is for raw text"),
        (["--binarized", "x", "--subwords", "none", "--codes", "9"], "--codes is not for --subwords none"),
    ],
)
def test_options_that_do_not_go_together_are_refused(capsys, words, message):
    assert message in refused(capsys, *words)
