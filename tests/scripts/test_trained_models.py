"""Models of Hugging Face folders, of two languages and of several, which train on with new text."""

import math
import shutil

import pytest
import torch

from fairseq_rope.__main__ import main
from fairseq_rope.checkpoints.model_folder import load_model
from pipeline.files import read_lines
from pipeline.training.batch_size import load
from pipeline.training.log import read_log
from pipeline.translation.engines import Search
from pipeline.translation.translator import Translator

from ..checkpoints import test_m2m100, test_marian
from ..commands import run, three_sets

pytestmark = pytest.mark.slow

POSITIONS, PIECES = 256, 120
SENTENCES = ["The old king sees a dog.", "A dog."]


def marian_folder(path):
    """As :func:`..checkpoints.test_marian.folder`, with pieces of the demo's text."""
    path.mkdir()
    words = test_marian.write_pieces(path, PIECES)
    words["<pad>"] = pad = len(words)
    numbers = dict(vocab_size=pad + 1, pad_token_id=pad, decoder_start_token_id=pad, max_position_embeddings=POSITIONS)
    test_marian.write_model(path, words, **numbers)


LANGUAGES = {"opus": ("en", "de"), "m2m100": ("en", "de"), "nllb": ("eng_Latn", "deu_Latn")}


@torch.no_grad()
def bits(model, data, tags):
    """The mean of a token, with the tags of the languages in front of both sides."""
    words = model.encoder.dictionary
    source_tag, target_tag = (torch.tensor([words.index(tag) for tag in each.split()]) for each in tags)
    total, tokens, end = 0.0, 0, torch.tensor([words.eos()])
    for pair in map(data.__getitem__, range(len(data))):
        source = torch.cat([source_tag, pair["source"]]).long()
        target = torch.cat([target_tag, pair["target"]]).long()
        logits = model(source[None], torch.tensor([len(source)]), torch.cat([end, target[:-1]])[None])[0][0]
        total -= logits.log_softmax(-1).gather(1, target[:, None]).sum().item()
        tokens += len(target)
    return total / tokens / math.log(2)


OTHERS = [("m2m100", "rope"), ("opus", None), ("nllb", None)]


@pytest.mark.parametrize(
    ("kind", "position"), [("m2m100", None), *(pytest.param(*each, marks=pytest.mark.long) for each in OTHERS)]
)
def test_a_converted_model_trains_on_from_where_it_is(kind, position, corpus, tmp_path):
    """Also with other positions: at a rate of nearly 0, the loss is that of the model, and so are the translations."""
    theirs, ours, data, out = (tmp_path / name for name in ("theirs", "ours", "data", "run"))
    if kind == "opus":
        marian_folder(theirs)
    else:
        test_m2m100.make_folder(theirs, kind, max_position_embeddings=POSITIONS)
    assert main(["convert", str(theirs), "--to", "plugin", "--out", str(ours)]) == 0
    if position:
        assert main(["convert", str(ours), "--position", position, "--out", str(ours / "other.pt")]) == 0
        (ours / "other.pt").replace(ours / "checkpoint.pt")
    langs = LANGUAGES[kind]
    for name in ("train", "valid", "test"):
        for lang, end in zip(langs, ("en", "de")):
            shutil.copy(corpus / f"{name}.{end}", tmp_path / f"{name}.{lang}")
    prepare = ["scripts/prepare.sh", *three_sets(tmp_path), "--like", ours, "--workers", 1, "--out", data]
    run(*prepare, "--source", langs[0], "--target", langs[1])
    valid = load(data / "bin", *langs, "valid")
    assert (torch.cat([valid[i]["source"] for i in range(len(valid))]) == valid.src_dict.unk()).float().mean() < 0.01
    tags = ("", "") if kind == "opus" else [f"__{lang}__" for lang in langs]
    train = ["scripts/train.sh", "--data", data, "--from", ours / "checkpoint.pt", "--out", out]
    run(*train, "--max-update", 1, "--save-every", 1, "--", "--lr", 1e-15, "--required-batch-size-multiple", 1)
    expected = bits(load_model(ours, "checkpoint.pt"), valid, tags)
    assert read_log(out / "train.log").valid[-1].nll == pytest.approx(expected, abs=2e-3)
    run("scripts/average.sh", "--run", out, "--data", data, "--last", 1)
    before = Translator(ours, Search(limit=20), source=langs[0], target=langs[1])
    after = Translator(out, Search(limit=20))
    assert read_lines(data / f"pieces/test.{langs[0]}") == before.split(read_lines(data / f"raw/test.{langs[0]}"))
    assert after.search(after.split(SENTENCES)) == before.search(before.split(SENTENCES))
    if kind != "opus":
        run("scripts/score.sh", "--run", out, "--data", data, "--", "--max-len-b", 20)
        translations = after.search(after.split(read_lines(data / f"raw/test.{langs[0]}")))
        assert read_lines(out / f"scores/test.hyp.{langs[1]}") == translations
