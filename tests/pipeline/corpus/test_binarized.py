"""Data that the user binarised: what is taken in, under which names, and what is refused."""

import io
import json

import pytest
from subword_nmt.apply_bpe import BPE

from pipeline.command import Failure
from pipeline.corpus import prepare
from pipeline.corpus.binarize import binarize
from pipeline.corpus.lines import CorpusError
from pipeline.prepared import read_languages, read_prepared
from pipeline.settings import data_line
from pipeline.training.train import Training, parse

LINES = {"train": 12, "valid": 9, "test": 5}
CODES = "#version: 0.2\nt h\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder of fairseq-preprocess, en-fr, beside its text."""
    folder = tmp_path_factory.mktemp("made")
    for name, count in LINES.items():
        for lang in ("en", "fr"):
            text = [f"{lang} the well-known {'abcdefghijkl'[i]}" for i in range(count)]
            (folder / f"{name}.{lang}").write_text("".join(f"{line}\n" for line in text))
    return binarized(folder)


def binarized(folder, sign=" @-@ "):
    """What fairseq-preprocess makes of the text in a folder: Moses' tokens, split with CODES."""
    codes = BPE(io.StringIO(CODES))
    (folder / "tokens").mkdir()
    for path in [path for path in folder.iterdir() if path.is_file()]:
        tokens = path.read_text().replace("-", sign).splitlines(keepends=True)
        (folder / "tokens" / path.name).write_text("".join(map(codes.process_line, tokens)))
    binarize(folder / "tokens", ("en", "fr"), {name: name for name in LINES}, folder / "bin", 1)
    return folder


@pytest.fixture
def mine(made, tmp_path):
    """A copy that a test may change."""
    (tmp_path / "bin").mkdir()
    for file in (made / "bin").iterdir():
        (tmp_path / "bin" / file.name).write_bytes(file.read_bytes())
    (tmp_path / "codes").write_text(CODES)
    return tmp_path


def taken(mine, *options, source="en", target="fr", subwords="bpe"):
    words = ["--binarized", mine / "bin", "--source", source, "--target", target, "--subwords", subwords]
    prepare.main([*map(str, [*words, "--out", mine / "out", *options])])
    return mine / "out"


def refused(mine, *parts, options=(), **kwargs):
    with pytest.raises(Failure) as error:
        taken(mine, *options, **kwargs)
    assert "\n" not in str(error.value)
    for part in parts:
        assert part in str(error.value), error.value
    assert not (mine / "out/prepare.json").exists()


def share_flag(data, tmp_path):
    return Training(parse(["--data", str(data), "--arch", "a", "--out", str(tmp_path / "run")])).flags


def test_later_steps_find_what_prepare_sh_would_have_made(made, mine, tmp_path):
    out = taken(mine, "--test", made / "test", "--valid", made / "valid", "--codes", mine / "codes")
    assert read_languages(out) == ("en", "fr")
    prepared = read_prepared(out, "")
    assert (prepared.subwords, prepared.hyphens_kept, prepared.split_by) == ("bpe", False, ["bpecodes"])
    assert (out / "bpecodes").read_text() == CODES
    for file in (mine / "bin").iterdir():
        assert (out / "bin" / file.name).read_bytes() == file.read_bytes()
    assert (out / "raw/test.fr").read_bytes() == (made / "test.fr").read_bytes()
    assert json.loads((out / "raw/train.json").read_text()) == {"pairs": 12}  # without text
    assert "--share-all-embeddings" in share_flag(out, tmp_path)


def test_the_dictionaries_say_whether_words_were_split_at_hyphens(made, mine, tmp_path):
    codes = ["--codes", mine / "codes"]
    told = "has @-@, so words were split at hyphens: leave out --keep-hyphens"
    refused(mine, told, options=[*codes, "--keep-hyphens"])
    kept = tmp_path / "kept"
    kept.mkdir()
    for name in LINES:
        for lang in ("en", "fr"):
            (kept / f"{name}.{lang}").write_bytes((made / f"{name}.{lang}").read_bytes())
    (binarized(kept, sign="-") / "codes").write_text(CODES)
    for flag in ([], ["--keep-hyphens"]):
        assert read_prepared(taken(kept, "--codes", kept / "codes", *flag), "").hyphens_kept


def test_codes_of_other_data_are_refused(mine):
    for codes in ("bin/dict.en.txt", "others"):
        (mine / "others").write_text("#version: 0.2\na b\n")
        told = "is cut off, or of other data: of 25 types", "give the file that your text was split with"
        refused(mine, *told, options=["--codes", mine / codes])
    assert not (mine / "out").exists()


def test_a_run_knows_the_data_by_their_files_alone(made, mine):
    first = data_line(taken(mine))
    assert data_line(taken(mine, "--test", made / "test", "--codes", mine / "codes", subwords="bpe")) == first
    path = mine / "bin/train.en-fr.en.bin"
    tokens = path.read_bytes()  # two bytes each
    path.write_bytes(tokens[2:4] + tokens[:2] + tokens[4:])
    assert data_line(taken(mine)) != first


def test_one_folder_serves_both_directions(mine):
    out = taken(mine, source="fr", target="en")
    assert read_languages(out) == ("fr", "en")
    for lang in ("en", "fr"):
        file = mine / f"bin/train.en-fr.{lang}.bin"
        assert (out / f"bin/train.fr-en.{lang}.bin").read_bytes() == file.read_bytes()


@pytest.mark.parametrize("name", ["train.en-fr.en.idx", "train.en-fr.fr.bin", "dict.fr.txt"])
@pytest.mark.parametrize("content", [b"", b"\xff" * 99])
def test_a_damaged_file_is_named(mine, name, content):
    (mine / "bin" / name).write_bytes(content)
    named = "test.en-fr.fr.idx" if (name, content) == ("dict.fr.txt", b"") else name.replace(".bin", ".idx")
    refused(mine, f"{mine}/bin/{named}", "run fairseq-preprocess again")


def test_a_dictionary_of_other_data_is_told(mine):
    path = mine / "bin/dict.en.txt"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:3]))
    refused(mine, "test.en-fr.en.idx cannot be used (its tokens are not in the dictionary)")


def test_subwords_of_another_kind_are_told(mine):
    refused(mine, "dict.en.txt has subwords of bpe: give --subwords bpe", subwords="none")
    path = mine / "bin/dict.fr.txt"
    path.write_text("".join(f"\u2581{line}\n" for line in path.read_text().splitlines()))
    refused(mine, "dict.fr.txt has subwords of sentencepiece: give --subwords sentencepiece")


def test_sides_of_different_length_are_told(mine):
    for kind in ("bin", "idx"):
        (mine / f"bin/train.en-fr.en.{kind}").write_bytes((mine / f"bin/valid.en-fr.en.{kind}").read_bytes())
    refused(mine, "train.en-fr.fr.idx has 12 sentences, and the other side 9")


def test_what_is_not_there_is_said(made, mine):
    refused(
        mine, "nowhere not found: give the --destdir of fairseq-preprocess", options=["--binarized", mine / "nowhere"]
    )
    refused(mine, "has no set 'test1'; there are: test train valid", options=["--test", made / "test"] * 2)
    with pytest.raises(CorpusError, match=r"valid has 9 pairs, but 5 were binarised as 'test'"):
        taken(mine, "--test", made / "valid")
    for lang in ("en", "fr"):
        lines = (made / f"test.{lang}").read_text().splitlines(keepends=True)
        (mine / f"other.{lang}").write_text("".join(lines[:4] + (["rien du tout\n"] if lang == "fr" else lines[4:])))
    told = ["other.fr: 1 of 5 lines are not the text that was binarised; line 5 is", "give the text that was binarised"]
    refused(mine, *told, options=["--test", mine / "other"])
    assert not (mine / "out").exists()
    (mine / "codes").write_text("only one word here\n")
    refused(mine, "codes is damaged: not two subwords a line", options=["--codes", mine / "codes"])
    refused(mine, "is damaged: no model of", options=["--codes", mine / "codes"], subwords="sentencepiece")
    (mine / "codes").unlink()
    refused(mine, "codes", "give the file that your text was split with", options=["--codes", mine / "codes"])
