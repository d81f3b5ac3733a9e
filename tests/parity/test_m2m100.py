"""M2M100 and NLLB of Hugging Face transformers as models of this plugin."""

import json
from itertools import takewhile

import pytest
import torch

from fairseq_rope.checkpoints.hugging_face.m2m100 import LANGUAGES
from fairseq_rope.checkpoints.model_folder import load_model
from pipeline.translation.engines import Search
from pipeline.translation.translator import Translator

from ..commands import ROOT
from ..helpers import FP32
from .helpers import MISSING
from .test_marian import SENTENCES

transformers = pytest.importorskip("transformers", reason=MISSING)
sentencepiece = pytest.importorskip("sentencepiece")

PIECES = 200


@pytest.fixture(scope="module", params=["m2m100", "nllb"])
def theirs(request, tmp_path_factory):
    """A folder with random weights that the library and SentencePiece write, and what the library reads from it."""
    folder = tmp_path_factory.mktemp(request.param) / "theirs"
    folder.mkdir()
    text = ",".join(str(ROOT / f"data/demo/train.{lang}") for lang in ("en", "de"))
    model = str(folder / "sentencepiece.bpe")
    sentencepiece.SentencePieceTrainer.train(input=text, model_prefix=model, vocab_size=PIECES, minloglevel=2)
    pieces = sentencepiece.SentencePieceProcessor(model_file=f"{model}.model")
    if request.param == "m2m100":
        words = ["<s>", "<pad>", "</s>", "<unk>", *map(pieces.id_to_piece, range(3, PIECES))]
        (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
        files, langs = [str(folder / "vocab.json"), f"{model}.model"], ("en", "de")
        tokenizer = transformers.M2M100Tokenizer(*files, src_lang=langs[0])
        size = len(words) + len(LANGUAGES) + tokenizer.num_madeup_words
    else:
        langs = ("eng_Latn", "deu_Latn")
        tokenizer = transformers.NllbTokenizer(f"{model}.model", src_lang=langs[0])
        size = len(tokenizer) + 2
    torch.manual_seed(1)
    sizes = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in (("layers", 2), ("ffn_dim", 48))}
    heads = dict(encoder_attention_heads=4, decoder_attention_heads=4, d_model=32, max_position_embeddings=128)
    scale = request.param == "nllb"
    config = transformers.M2M100Config(vocab_size=size, scale_embedding=scale, **sizes, **heads)
    peer = transformers.M2M100ForConditionalGeneration(config).eval()
    for parameter in peer.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    peer.model.shared.weight.data[tokenizer.pad_token_id] = 0
    peer.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder, peer, tokenizer, langs


def symbols(tokenizer, size):
    """This plugin's words, by their numbers there."""
    words, made_up = [], (f"madeupword{i:04d}" for i in range(size))
    behind = 2 if isinstance(tokenizer, transformers.NllbTokenizer) else 0  # rows that the tokenizer does not know
    for i in range(size):
        word = tokenizer.convert_ids_to_tokens(i) if i < size - behind else None
        if i > PIECES and word != "<mask>":
            word = next(made_up) if word in (None, "<unk>") else f"__{word.strip('_')}__"
        words.append(word)
    return words


@torch.no_grad()
def test_the_logits_are_the_librarys(theirs, ours):
    _, peer, tokenizer, (source, target) = theirs
    model = load_model(ours)
    words = model.encoder.dictionary
    tokenizer.tgt_lang = target
    batch = tokenizer(SENTENCES, text_target=SENTENCES[::-1], return_tensors="pt", padding=True)
    expected = peer(**batch).logits
    to_ours = torch.tensor([words.index(word) for word in symbols(tokenizer, expected.size(-1))])
    assert sorted(to_ours) == list(range(len(words)))
    ids, targets = to_ours[batch.input_ids], to_ours[batch.labels]
    assert [words[row] for row in (ids[1, 0], targets[1, 0])] == [f"__{source}__", f"__{target}__"]
    previous = torch.cat([torch.full((len(ids), 1), words.eos()), targets[:, :-1]], dim=1)
    real = targets.ne(words.pad())
    torch.testing.assert_close(model(ids, None, previous)[0][..., to_ours][real], expected[real], **FP32)


@pytest.mark.parametrize("engine", ["fairseq", "ctranslate2"])
@torch.no_grad()
def test_the_search_finds_the_same_translations(theirs, ours, engine):
    """Beam 4, of at most 30 tokens, with the library's length penalty, which counts the tag as ours does."""
    pytest.importorskip(engine)
    _, peer, tokenizer, (source, target) = theirs
    batch = tokenizer(SENTENCES, return_tensors="pt", padding=True)
    tag = tokenizer.get_lang_id(target) if target in LANGUAGES else tokenizer.convert_tokens_to_ids(target)
    found = peer.generate(
        **batch, num_beams=4, max_length=31, length_penalty=1.0, early_stopping=True,
        forced_bos_token_id=tag, bad_words_ids=[[tokenizer.pad_token_id]],
    )  # fmt: skip
    translator = Translator(ours, Search(4, 1.0), engine=engine, source=source, target=target)
    translator.engine.max_length = 30
    if engine == "ctranslate2":
        translator.engine.options["max_decoding_length"] = 31
    sources = translator.split(SENTENCES)
    assert sources[0].split() == tokenizer.tokenize(SENTENCES[0])
    words = symbols(tokenizer, peer.config.vocab_size)
    rows = [takewhile(lambda i: i != tokenizer.eos_token_id, row[2:]) for row in found.tolist()]  # behind </s> and tag
    expected = [" ".join(words[i] for i in row) for row in rows]
    assert translator.engine.search(sources)[0] == expected and all(expected)
