"""Converted checkpoints against the models and tokenisers of Hugging Face transformers."""

import argparse

import pytest
import torch

from fairseq_rope.__main__ import main
from fairseq_rope.wordpieces import WordPiece

from ..checkpoints.hugging_face import CONFIG, IDS, KINDS, PIECES, folder, logits
from ..helpers import FP32
from .helpers import MISSING

transformers = pytest.importorskip("transformers", reason=MISSING)
CLASSES = {"bert": "BertForMaskedLM", "roformer": "RoFormerForMaskedLM"}

ACCENTS = "th\u00e9 n\u00e4ive\tdog\u200b"
TEXTS = ["The old  KING sees a dog.", "playing dogs, (the king's)!", ACCENTS, "今天很好。The king", "", "x" * 120]


def random_folder(path, kind, **changes):
    """A folder that the library writes, of a model with random weights."""
    torch.manual_seed(1)
    cls = getattr(transformers, CLASSES[kind])
    peer = cls(cls.config_class(**{**CONFIG, **changes})).eval()
    for parameter in peer.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.5)
    peer.save_pretrained(path)
    (path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES), encoding="utf-8")
    return peer


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("changes", [{}, dict(hidden_act="gelu_new", layer_norm_eps=1e-3, tie_word_embeddings=False)])
@torch.no_grad()
def test_the_logits_are_the_librarys_there_and_back(kind, changes, tmp_path):
    peer = random_folder(tmp_path / "theirs", kind, **changes)
    padded = torch.nn.functional.pad(IDS, (0, 3))
    expected = peer(padded, attention_mask=padded.ne(0).long()).logits[:, : IDS.size(1)]
    assert main(["convert", str(tmp_path / "theirs"), "--to", "plugin", "--out", str(tmp_path / "run")]) == 0
    torch.testing.assert_close(logits(tmp_path / "run", padded)[:, : IDS.size(1)], expected, **FP32)
    assert main(["convert", str(tmp_path / "run"), "--to", "hugging-face", "--out", str(tmp_path / "back")]) == 0
    back, loading = type(peer).from_pretrained(tmp_path / "back", output_loading_info=True)
    assert not loading["missing_keys"] and not loading["mismatched_keys"]
    assert torch.equal(back.eval()(IDS).logits, peer(IDS).logits)


def test_text_is_split_as_by_berts_tokeniser_and_by_roformers_with_chinese_words(tmp_path):
    path = folder(tmp_path / "theirs", "bert")
    bert = transformers.BertTokenizer(str(path / "vocab.txt"))
    bpe = WordPiece(argparse.Namespace(wordpiece_vocab=str(path / "vocab.txt")))
    for text in TEXTS:
        assert bpe.encode(text).replace("<unk>", "[UNK]").split() == bert.tokenize(text)
    pytest.importorskip("rjieba")
    (path / "tokenizer_config.json").write_text('{"tokenizer_class": "RoFormerTokenizer"}')
    roformer = transformers.RoFormerTokenizer(str(path / "vocab.txt"))
    bpe = WordPiece(argparse.Namespace(wordpiece_vocab=str(path / "vocab.txt")))
    for text in (text for text in TEXTS if text != ACCENTS):  # RoFormer's authors strip them before they cut words
        assert bpe.encode(text).replace("<unk>", "[UNK]").split() == roformer.tokenize(text)
