"""MarianMT (OPUS-MT) of Hugging Face transformers as a model of this plugin, and back."""

import json

import pytest
import torch

from fairseq_rope.__main__ import main
from fairseq_rope.checkpoints.model_folder import load_model
from pipeline.translation.engines import Search
from pipeline.translation.translator import Translator

from ..checkpoints.test_marian import write_pieces
from ..helpers import FP32
from .helpers import MISSING

transformers = pytest.importorskip("transformers", reason=MISSING)

SENTENCES = [
    "The old king sees a dog.",
    "A dog.",
    "Every sister sees no blue picture, and the old king sees two birds.",
]


@pytest.fixture(
    scope="module", params=[{}, dict(scale_embedding=False, activation_function="relu", max_position_embeddings=96)]
)
def theirs(request, tmp_path_factory):
    """A folder with random weights that the library and SentencePiece write, and what the library reads from it."""
    folder = tmp_path_factory.mktemp("marian") / "theirs"
    folder.mkdir()
    words = write_pieces(folder, 120)
    words[">>deu<<"] = len(words)
    words["<pad>"] = pad = len(words)
    (folder / "vocab.json").write_text(json.dumps(words))
    torch.manual_seed(1)
    sizes = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in (("layers", 2), ("ffn_dim", 48))}
    heads = dict(encoder_attention_heads=4, decoder_attention_heads=4, d_model=32)
    config = dict(
        activation_function="swish",
        scale_embedding=True,
        max_position_embeddings=128,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        vocab_size=len(words),
        decoder_vocab_size=len(words),
    )
    peer = transformers.MarianMTModel(transformers.MarianConfig(**{**sizes, **heads, **config, **request.param})).eval()
    for parameter in peer.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.3)
    peer.model.shared.weight.data[pad] = 0
    torch.nn.init.normal_(peer.final_logits_bias)
    peer.save_pretrained(folder)
    tokenizer = transformers.MarianTokenizer(
        *(str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")), source_lang="en", target_lang="de"
    )
    tokenizer.save_pretrained(folder)
    return folder, peer, tokenizer


@torch.no_grad()
def test_the_logits_are_the_librarys(theirs, ours):
    _, peer, tokenizer = theirs
    model = load_model(ours)
    source, words = model.encoder.dictionary, tokenizer.encoder
    batch = tokenizer(SENTENCES, text_target=SENTENCES[::-1], return_tensors="pt", padding=True)
    labels = batch.labels
    expected = peer(**batch).logits
    to_ours = torch.tensor([source.index(word) for word in sorted(words, key=words.get)])
    ids, targets = to_ours[batch.input_ids], to_ours[labels]
    begins = torch.full((len(ids), 1), source.eos())  # as fairseq makes a decoder's input
    previous = torch.cat([begins, targets[:, :-1]], dim=1)
    actual = model(ids, None, previous)[0]
    real = targets.ne(source.pad())
    torch.testing.assert_close(actual[..., to_ours][real], expected[real], **FP32)
    assert (actual[..., source.bos()] < -1000).all()


@torch.no_grad()
def test_the_search_finds_the_same_translations(theirs, ours):
    """Beam 4, of at most 30 tokens, with the library's length penalty, which counts as ours does."""
    _, peer, tokenizer = theirs
    batch = tokenizer(SENTENCES, return_tensors="pt", padding=True)
    found = peer.generate(
        **batch, num_beams=4, max_length=31, length_penalty=1.0, early_stopping=True, forced_eos_token_id=None,
        bad_words_ids=[[tokenizer.pad_token_id]],
    )  # fmt: skip
    expected = tokenizer.batch_decode(found, skip_special_tokens=True)
    translator = Translator(ours, Search(lenpen=1.0))
    translator.engine.max_length = 30
    actual = translator.search(translator.split(SENTENCES))
    assert translator.split(SENTENCES)[0].split() == tokenizer.tokenize(SENTENCES[0])
    assert actual == expected


def test_the_way_back_is_the_same_to_the_bit(theirs, ours, tmp_path):
    assert main(["convert", str(ours), "--to", "hugging-face", "--out", str(tmp_path / "back")]) == 0
    back, loading = transformers.MarianMTModel.from_pretrained(tmp_path / "back", output_loading_info=True)
    assert not loading["missing_keys"] and not loading["mismatched_keys"] and not loading["unexpected_keys"]
    assert all(torch.equal(value, back.state_dict()[name]) for name, value in theirs[1].state_dict().items())
    transformers.MarianTokenizer.from_pretrained(tmp_path / "back")
