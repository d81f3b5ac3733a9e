"""The data of a fine-tuning: encoded by the pretraining's dictionary, shortened to its longest input."""

import pytest
from fairseq.data import Dictionary, data_utils

from pipeline.command import Failure
from pipeline.files import write_json
from pipeline.finetuning.data import encode, shorten
from pipeline.finetuning.tasks import TASKS, Example


@pytest.fixture
def pretrained(tmp_path):
    """Makes the folder of a model that knows these letters."""

    def make(letters):
        run = tmp_path / "run"
        run.mkdir()
        write_json(run / "prepare.json", {"kind": "text", "source": "en", "target": "en", "subwords": "bytes"})
        (run / "dict.txt").write_text("".join(f"{letter} 1\n" for letter in letters))
        return run

    return make


def test_encoded_sentences_have_the_dictionary_of_the_pretraining(tmp_path, pretrained, capsys):
    run, data = pretrained("abc\u2581"), tmp_path / "data"
    sets = {"train": [Example(("ab c", "b"), "entailment")], "valid": [Example(("x", "c"), "not_entailment")]}

    def encoded(longest):
        encode(TASKS["RTE"], sets, run, data, longest)
        words, labels = (Dictionary.load(str(path / "dict.txt")) for path in (run, data / "label"))
        names = {"input0/train": words, "input1/valid": words, "input0/valid": words, "label/train": labels}
        files = {name: data_utils.load_indexed_dataset(str(data / name)) for name in names}
        return [[names[name].string(line) for line in file] for name, file in files.items()]

    assert encoded(10) == [["a b \u2581 c"], ["c"], ["<unk>"], ["entailment"]]
    assert (data / "input1/dict.txt").read_bytes() == (run / "dict.txt").read_bytes()
    assert "shortened" not in capsys.readouterr().err and encoded(8)[0] == ["a b \u2581"]
    assert "1 of 2 examples are shortened" in capsys.readouterr().err


def test_the_longer_sentence_of_a_pair_is_cut():
    """A pair has four further tokens, ``<s> A </s> </s> B </s>``; of several, each is joined with the first."""
    for lengths, longest, kept in (
        ((6,), 7, (5,)),
        ((5, 5), 14, (5, 5)),
        ((9, 2), 14, (8, 2)),
        ((2, 9), 14, (2, 8)),
        ((9, 9), 13, (5, 4)),
        ((9, 4, 1), 14, (6, 4, 1)),
        ((3, 1, 99), 14, (3, 1, 7)),
    ):
        sentences = [" ".join(f"{name}{i}" for i in range(length)) for name, length in zip("abc", lengths)]
        short = shorten(sentences, longest)
        assert tuple(len(sentence.split()) for sentence in short) == kept
        assert all(sentence.startswith(begin) for sentence, begin in zip(sentences, short))


def test_text_that_the_model_does_not_know_is_counted_and_refused(tmp_path, pretrained, capsys):
    run, task = pretrained("ab"), TASKS["SST-2"]
    encode(task, {"train": [Example(("ax",), "0")], "valid": [Example(("bb",), "1")]}, run, tmp_path / "data", 10)
    assert "1 of 4 tokens" in capsys.readouterr().err
    with pytest.raises(Failure, match="3 of 4 tokens"):
        encode(task, {"train": [Example(("ax",), "0")], "valid": [Example(("yz",), "1")]}, run, tmp_path / "new", 10)
    assert not (tmp_path / "new").exists()
