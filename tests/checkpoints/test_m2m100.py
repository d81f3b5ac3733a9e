"""Folders of M2M100 and NLLB, written here without the library: what becomes of them, and what is refused."""

import json

import pytest
import torch

from fairseq_rope.__main__ import main
from fairseq_rope.checkpoints.hugging_face.m2m100 import LANGUAGES
from fairseq_rope.checkpoints.model_folder import load_model, read_direction
from fairseq_rope.checkpoints.multilingual import Direction

from ..commands import ROOT
from .test_marian import CONFIG, WIDTH, safetensors, tensors

sentencepiece = pytest.importorskip("sentencepiece")

PIECES, UNUSED = 100, 2
NLLB = ["deu_Latn", "eng_Latn", "zho_Hans"]
NORMS = {f"model.{side}.layer_norm.{name}": (WIDTH,) for side in ("encoder", "decoder") for name in ("weight", "bias")}
TINY = dict(CONFIG, model_type="m2m_100", activation_function="relu", eos_token_id=2, decoder_start_token_id=2)


def written(path, name, content):
    (path / f"{name}.json").write_text(json.dumps(content))


def make_folder(path, kind, **config):
    """A folder of ``m2m100`` or ``nllb``; returns the tokens that SentencePiece makes, by their numbers."""
    path.mkdir()
    text, model = str(ROOT / "data/demo/train.en"), str(path / "sentencepiece.bpe")
    sentencepiece.SentencePieceTrainer.train(input=text, model_prefix=model, vocab_size=PIECES, minloglevel=2)
    pieces = sentencepiece.SentencePieceProcessor(model_file=f"{model}.model")
    words = ["<s>", "<pad>", "</s>", "<unk>", *map(pieces.id_to_piece, range(3, PIECES))]
    if kind == "m2m100":
        written(path, "vocab", {word: i for i, word in enumerate(words)})
        written(path, "tokenizer_config", {"language_codes": "m2m100"})
    else:
        written(path, "tokenizer_config", {})
        written(path, "special_tokens_map", {"additional_special_tokens": NLLB, "mask_token": "<mask>"})
    types = len(words) + len(LANGUAGES if kind == "m2m100" else NLLB) + UNUSED
    safetensors.save_file(tensors(types, NORMS), str(path / "model.safetensors"), metadata={"format": "pt"})
    written(path, "config", {**TINY, "vocab_size": types, **config})
    return words


@pytest.fixture(params=["m2m100", "nllb"])
def folder(request, tmp_path):
    """A folder, and the tokens that SentencePiece makes, by their numbers."""
    path = tmp_path / request.param
    return path, make_folder(path, request.param)


def test_a_folder_becomes_a_model_of_many_languages(folder, tmp_path):
    path, words = folder
    assert main(["convert", str(path), "--to", "plugin", "--out", str(tmp_path / "run")]) == 0
    encoder = load_model(tmp_path / "run").encoder
    given = safetensors.load_file(str(path / "model.safetensors"))["model.shared.weight"]
    source, target = ("en", "de") if path.name == "m2m100" else ("eng_Latn", "deu_Latn")
    direction = read_direction(tmp_path / "run", source=source, target=target)
    assert direction == Direction(source, target, f"__{source}__", f"__{target}__")
    tag = len(words) + (LANGUAGES.index("de") if path.name == "m2m100" else 0)
    for word, row in ((words[9], 9), (direction.target_tag, tag), ("madeupword0001", len(given) - 1)):
        assert torch.equal(encoder.embed_tokens.weight[encoder.dictionary.index(word)], given[row])
