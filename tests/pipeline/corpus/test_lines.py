"""Parallel text: checked copies and cleaning."""

import gzip
from pathlib import Path

import pytest

from pipeline.command import Failure
from pipeline.corpus.cleaning import clean
from pipeline.corpus.lines import copy_pairs, copy_sets, join
from pipeline.corpus.prepare import main as prepare
from pipeline.files import read_json

LANGS = ("en", "de")


def write(folder, en, de, name="in"):
    for lang, data in zip(LANGS, (en, de)):
        (folder / f"{name}.{lang}").write_bytes(data if isinstance(data, bytes) else data.encode())
    return str(folder / name), str(folder / "out")


def read(prefix):
    return [open(f"{prefix}.{lang}", encoding="utf-8", newline="").read() for lang in LANGS]


def test_only_a_newline_ends_a_line_also_in_gzipped_files(tmp_path):
    """A byte order mark is no text; the last line may lack its end."""
    prefix, out = write(tmp_path, "", "\ufeffx\n y\tz \n\ufeff")
    (tmp_path / "in.en").unlink()
    (tmp_path / "in.en.gz").write_bytes(gzip.compress("ä\rb\r\nc\u2028d\x85e\nf\n".encode()))
    assert copy_pairs(prefix, out, LANGS) == {"pairs": 3}
    assert read(out) == ["ä b\nc d e\nf\n", "x\ny z\n\ufeff\n"]


def test_a_gzipped_file_beside_its_plain_one_is_refused(tmp_path):
    prefix, out = write(tmp_path, "a\n", "x\n")
    (tmp_path / "in.en.gz").write_bytes(gzip.compress(b"a\n"))
    with pytest.raises(Failure, match=r"in\.en and .*in\.en\.gz .*remove one"):
        copy_pairs(prefix, out, LANGS)


@pytest.mark.parametrize(
    "en,de,message",
    [
        ("a\nb\n", "x\n", r"in.de has 1 lines, the other side more: the two sides must be aligned"),
        ("a\n", "x\ny\nz\n", r"in.en has 1 lines"),
        ("a\nb\n", b"x\n\xff\xfe\n", r"in.de, line 2: not UTF-8"),
        ("a" * 100_001 + "\n", "x\n", r"in\.en, line 1: 100,001 characters"),
        ("", "", "are empty"),
    ],
)
def test_bad_input_is_refused_and_leaves_nothing(tmp_path, en, de, message):
    prefix, out = write(tmp_path, en, de)
    with pytest.raises(Failure, match=message):
        copy_pairs(prefix, out, LANGS)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.de", "in.en"]


def test_pairs_of_other_sets_that_are_in_the_training_set_are_counted(tmp_path):
    """An empty pair is none, nor the source with another translation. A last line may lack its end."""
    train, _ = write(tmp_path, "a\nb\nc\n\n", "A\nB\nC\n\n", "train")
    test, _ = write(tmp_path, "a\nb\n\na\nd\nc", "A\nX\n\nA\nD\nC", "test")
    copy_sets({"train": train, "test": test}, tmp_path / "raw", LANGS)
    assert read_json(tmp_path / "raw/train.json", "") == {"pairs": 4}
    assert read_json(tmp_path / "raw/test.json", "") == {"pairs": 6, "in_train": 3}


def test_one_text_for_two_sets_is_refused(tmp_path):
    train, out = write(tmp_path, "a\nb\n", "A\nB\n", "train")
    test, _ = write(tmp_path, "c\nd\n", "C\nD\n", "test")
    with pytest.raises(Failure, match="test: another set has this text too; give each of --train"):
        prepare(["--train", train, "--valid", test, "--test", test, "--out", out])
    assert not Path(out).exists()


def test_cleaning_counts_each_rule(tmp_path):
    prefix, out = write(tmp_path, "a b\n\na b c d\na b c\nk l\n", "x y\nx\nx y z w\nx y\nx\n")
    counts = clean(prefix, out, LANGS, max_length=3, ratio=1.5)
    assert counts == {"pairs": 5, "kept": 2, "dropped_too_short": 1, "dropped_too_long": 1, "dropped_ratio": 1}
    assert read(out) == ["a b\na b c\n", "x y\nx y\n"]
    with pytest.raises(Failure, match="is left after cleaning: relax --max-length"):
        clean(prefix, out, LANGS, max_length=0, ratio=1.5)


def test_a_default_ratio_that_does_not_suit_the_languages_is_refused_with_one_that_does(tmp_path):
    """Each target has twice the tokens of its source, or thrice in one pair of ten."""
    prefix, out = write(tmp_path, "a a a a\n" * 40, ("a " * 12 + "\n" + ("a " * 8 + "\n") * 9) * 4)
    with pytest.raises(Failure) as refused:
        clean(prefix, out, LANGS, 250, 1.5, most=0.1)
    assert "would drop 40 of 40 " in str(refused.value) and "give --ratio 3," in str(refused.value)
    assert not list(tmp_path.glob("out*"))
    assert clean(prefix, out, LANGS, 250, 2, most=0.1)["dropped_ratio"] == 4


def test_consecutive_pairs_are_joined_on_both_sides_and_too_few_at_the_end_left_out(tmp_path):
    prefix, out = write(tmp_path, "a b.\nc\nd\ne\nf\n", "1.\n2 3\n4\n5\n6\n")
    join(prefix, out, LANGS, 2)
    assert read(out) == ["a b. c\nd e\n", "1. 2 3\n4 5\n"]
    join(prefix, out, LANGS, 1)
    assert read(out) == [(tmp_path / f"in.{lang}").read_text() for lang in LANGS]


def test_dropped_pairs_and_ends_of_documents_leave_an_empty_line(tmp_path):
    prefix, out = write(tmp_path, "a\nb b b b\nc\nd\n", "A\nB\nC\nD\n")
    clean(prefix, out, LANGS, 9, 1.5, documents=[3, 1])
    assert read(out) == ["a\n\nc\n\nd\n\n", "A\n\nC\n\nD\n\n"]
