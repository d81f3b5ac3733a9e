"""Data that the user binarised: what is taken in, under which names, and what is refused."""

import io

import pytest
from subword_nmt.apply_bpe import BPE

from pipeline.command import Failure
from pipeline.corpus import prepare
from pipeline.corpus.binarize import binarize
from pipeline.prepared import read_languages, read_prepared
from pipeline.settings import data_line
from pipeline.training.train import Training, parse

LINES = {"train": 12, "valid": 9, "test": 5}
CODES = "#version: 0.2\nt h\n"


def binarized(folder, sign=" @-@ "):
    """A folder of fairseq-preprocess, en-fr, beside its text: Moses' tokens, split with CODES."""
    codes = BPE(io.StringIO(CODES))
    (folder / "tokens").mkdir(parents=True)
    for name, count in LINES.items():
        for lang in ("en", "fr"):
            text = "".join(f"{lang} the well-known {'abcdefghijkl'[i]}\n" for i in range(count))
            (folder / f"{name}.{lang}").write_text(text)
            tokens = text.replace("-", sign).splitlines(keepends=True)
            (folder / f"tokens/{name}.{lang}").write_text("".join(map(codes.process_line, tokens)))
    binarize(folder / "tokens", ("en", "fr"), {name: name for name in LINES}, folder / "bin", 1)
    (folder / "codes").write_text(CODES)
    return folder


@pytest.fixture
def mine(tmp_path):
    return binarized(tmp_path)


def taken(mine, *options, source="en", target="fr", subwords="bpe"):
    words = ["--binarized", mine / "bin", "--source", source, "--target", target, "--subwords", subwords]
    prepare.main([*map(str, [*words, "--out", mine / "out", *options])])
    return mine / "out"


def refused(mine, *parts, options=(), **kwargs):
    with pytest.raises(Failure) as error:
        taken(mine, *options, **kwargs)
    for part in parts:
        assert part in str(error.value), error.value
    assert not (mine / "out").exists()


def test_later_steps_find_what_prepare_sh_would_have_made(mine, tmp_path):
    out = taken(mine, "--test", mine / "test", "--valid", mine / "valid", "--codes", mine / "codes")
    assert read_languages(out) == ("en", "fr")
    prepared = read_prepared(out, "")
    assert (prepared.subwords, prepared.hyphens, prepared.split_by) == ("bpe", "split", ["bpecodes"])
    assert (out / "bpecodes").read_text() == CODES
    for file in (mine / "bin").iterdir():
        assert (out / "bin" / file.name).read_bytes() == file.read_bytes()
    assert (out / "raw/test.fr").read_bytes() == (mine / "test.fr").read_bytes()
    train = ["--data", str(out), "--arch", "a", "--out", str(tmp_path / "run")]
    assert "--share-all-embeddings" in Training(parse(train)).flags
    assert read_languages(taken(mine, source="fr", target="en")) == ("fr", "en")  # the other direction
    for lang in ("en", "fr"):
        file = mine / f"bin/train.en-fr.{lang}.bin"
        assert (out / f"bin/train.fr-en.{lang}.bin").read_bytes() == file.read_bytes()


def test_the_dictionaries_say_whether_words_were_split_at_hyphens(tmp_path):
    for sign, hyphens in ((" @-@ ", "split"), ("-", "kept")):
        mine = binarized(tmp_path / hyphens, sign)
        assert read_prepared(taken(mine, "--codes", mine / "codes"), "").hyphens == hyphens


def test_a_run_knows_the_data_by_their_files_alone(mine):
    first = data_line(taken(mine))
    assert data_line(taken(mine, "--test", mine / "test", "--codes", mine / "codes")) == first
    path = mine / "bin/train.en-fr.en.bin"
    tokens = path.read_bytes()  # two bytes each
    path.write_bytes(tokens[2:4] + tokens[:2] + tokens[4:])
    assert data_line(taken(mine)) != first


def test_a_file_that_is_missing_damaged_or_of_other_data_is_refused(mine):
    first_types = b"".join((mine / "bin/dict.en.txt").read_bytes().splitlines(keepends=True)[:3])
    for name, content in (
        ("train.en-fr.en.idx", None),
        ("train.en-fr.fr.bin", b""),
        ("dict.fr.txt", b"\xff" * 99),
        ("dict.en.txt", first_types),
    ):
        file = mine / "bin" / name
        right = file.read_bytes()
        file.write_bytes(content) if content is not None else file.unlink()
        refused(mine, "run fairseq-preprocess again")
        file.write_bytes(right)


def test_text_and_codes_of_other_data_are_refused(mine):
    refused(mine, "has no set 'test1'", options=["--test", mine / "test"] * 2)
    refused(mine, "valid has 9 pairs, but 5 were binarised", options=["--test", mine / "valid"])
    for lang in ("en", "fr"):
        lines = (mine / f"test.{lang}").read_text().splitlines(keepends=True)
        (mine / f"other.{lang}").write_text("".join(lines[:4] + (["rien du tout\n"] if lang == "fr" else lines[4:])))
    told = ["other.fr: 1 of 5 lines are not the text that was binarised; line 5 is", "give the text that was binarised"]
    refused(mine, *told, options=["--test", mine / "other"])
    for codes in (mine / "bin/dict.en.txt", mine / "others"):
        (mine / "others").write_text("#version: 0.2\na b\n")
        told = "is cut off, or of other data: of 25 types", "give the file that your text was split with"
        refused(mine, *told, options=["--codes", codes])
