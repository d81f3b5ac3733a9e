"""The data of a fine-tuning: encoded by the pretraining's dictionary, shortened to its longest input."""

import pytest
from fairseq.data import Dictionary, data_utils

from pipeline.command import Failure
from pipeline.files import read_json, write_json
from pipeline.finetuning.base import SHORTENED, Example
from pipeline.finetuning.data import encode, shorten
from pipeline.finetuning.options import TASKS


def test_encoded_sentences_have_the_dictionary_of_the_pretraining(tmp_path):
    run, task = tmp_path / "run", TASKS["RTE"]
    run.mkdir()
    write_json(run / "prepare.json", {"kind": "text", "source": "en", "target": "en", "subwords": "bytes"})
    (run / "dict.txt").write_text("".join(f"{letter} 1\n" for letter in "abc\u2581"))
    sets = {"train": [Example(("ab c", "b"), "entailment")], "valid": [Example(("x", "c"), "not_entailment")]}
    encode(task, sets, run, tmp_path / "data", 10)
    words = Dictionary.load(str(run / "dict.txt"))

    def read(name, dictionary):
        return [dictionary.string(line) for line in data_utils.load_indexed_dataset(str(tmp_path / "data" / name))]

    assert read("input0/train", words) == ["a b \u2581 c"] and read("input1/valid", words) == ["c"]
    assert read("input0/valid", words) == ["<unk>"]
    labels = Dictionary.load(str(tmp_path / "data/label/dict.txt"))
    assert [read(f"label/{split}", labels) for split in sets] == [["entailment"], ["not_entailment"]]
    assert (tmp_path / "data/input1/dict.txt").read_bytes() == (run / "dict.txt").read_bytes()
    assert read_json(tmp_path / "data" / SHORTENED) == {"train": 0, "valid": 0}
    encode(task, sets, run, tmp_path / "data", 8)
    assert read("input0/train", words) == ["a b \u2581"]
    assert read_json(tmp_path / "data" / SHORTENED) == {"train": 1, "valid": 0}


@pytest.mark.parametrize(
    ("lengths", "longest", "kept"),
    [
        ((5,), 7, (5,)),
        ((6,), 7, (5,)),
        ((5, 5), 14, (5, 5)),
        ((9, 2), 14, (8, 2)),
        ((2, 9), 14, (2, 8)),
        ((9, 9), 14, (5, 5)),
        ((9, 9), 13, (5, 4)),
        ((9, 4, 1), 14, (6, 4, 1)),
        ((3, 1, 99), 14, (3, 1, 7)),
        ((1, 0), 6, (1, 0)),
    ],
)
def test_the_longer_sentence_of_a_pair_is_cut(lengths, longest, kept):
    """A pair has four further tokens, ``<s> A </s> </s> B </s>``; of several, each is joined with the first."""
    sentences = [" ".join(f"{name}{i}" for i in range(length)) for name, length in zip("abc", lengths)]
    short = shorten(sentences, longest)
    assert [len(sentence.split()) for sentence in short] == list(kept)
    assert all(sentence.startswith(begin) for sentence, begin in zip(sentences, short))


def test_a_model_without_room_for_a_pair_is_refused():
    with pytest.raises(Failure, match="takes 5 tokens, too few for this task: pretrain it with longer blocks"):
        shorten(["a", "b"], 5)


def test_damaged_files_of_the_pretraining_are_refused(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "dict.txt").write_text("a 1\n")
    prepared = {"kind": "text", "source": "en", "target": "en", "subwords": "bytes", "sha256": {"dict.txt": "0" * 64}}
    write_json(run / "prepare.json", prepared)
    with pytest.raises(
        Failure, match=r"dict\.txt is damaged: its SHA-256 is not that in prepare\.json: run scripts/av"
    ):
        encode(TASKS["RTE"], {"train": [], "valid": []}, run, tmp_path / "data", 10)
    assert not (tmp_path / "data").exists()


def test_text_that_the_model_does_not_know_is_counted_and_refused(tmp_path, capsys):
    run, task = tmp_path / "run", TASKS["SST-2"]
    run.mkdir()
    write_json(run / "prepare.json", {"kind": "text", "source": "en", "target": "en", "subwords": "bytes"})
    (run / "dict.txt").write_text("a 1\nb 1\n")
    encode(task, {"train": [Example(("ax",), "0")], "valid": [Example(("bb",), "1")]}, run, tmp_path / "data", 10)
    assert "SST-2: 1 of 4 tokens are unknown to the model" in capsys.readouterr().err
    with pytest.raises(Failure, match=r"SST-2: 3 of 4 tokens are unknown to the model: .*run was trained on text"):
        encode(task, {"train": [Example(("ax",), "0")], "valid": [Example(("yz",), "1")]}, run, tmp_path / "new", 10)
    assert not (tmp_path / "new").exists()
