"""The word pieces of BERT and RoFormer: how text is split, put together again, and used to fill in masked words."""

import argparse
import json

import pytest
from fairseq.data.encoders.characters import Characters

from fairseq_rope import RoFormerMaskedModel
from fairseq_rope.__main__ import main
from fairseq_rope.masked_hub import MaskedHub, Splitter
from fairseq_rope.wordpieces import WordPiece

from .checkpoints.hugging_face import IDS, PIECES, folder, logits


@pytest.fixture
def splitter(tmp_path):
    pytest.importorskip("tokenizers")

    def build(**settings):
        (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES), encoding="utf-8")
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        return WordPiece(argparse.Namespace(wordpiece_vocab=str(tmp_path / "vocab.txt")))

    return build


def test_words_become_their_longest_pieces_and_unknown_ones_fairseqs_symbol(splitter):
    bpe = splitter()
    assert bpe.encode("The old  KING plays, playing dogs.") == "the old king play ##s <unk> play ##ing dog ##s ."
    assert bpe.encode("") == bpe.encode("\u200b\n") == ""
    assert bpe.encode("a" * 101) == bpe.encode("zebra") == "<unk>"


def test_text_cannot_forge_special_symbols(splitter):
    assert set(splitter().encode("[MASK] <mask> </s> [SEP]").split()) == {"<unk>"}


def test_the_settings_beside_the_vocabulary_count(splitter):
    assert splitter(do_lower_case=False).encode("The the") == "<unk> the"
    assert (
        splitter().encode("th\u00e9") == splitter(strip_accents=True, do_lower_case=False).encode("th\u00e9") == "the"
    )
    assert splitter(strip_accents=False).encode("th\u00e9") == "<unk>"


def test_chinese_is_split_into_characters_or_as_roformer_into_words(splitter):
    assert splitter().encode("今天很好。the") == "今 天 很 好 。 the"
    assert splitter(tokenize_chinese_chars=False).encode("今天 很好。") == "今天 <unk> 。"
    pytest.importorskip("rjieba")
    assert splitter(tokenizer_class="RoFormerTokenizer").encode("今天很好。The dogs") == "今天 很 好 。 the dog ##s"


@pytest.mark.parametrize(
    "text, around",
    [("old <mask>ing sees", ("o l d ▁", "i n g ▁ s e e s")), (" old<mask> .", ("o l d", "▁ .")), ("<mask>", ("", ""))],
)
def test_spaces_beside_the_mask_are_tokens(text, around):
    assert MaskedHub._around(argparse.Namespace(bpe=Splitter(None, Characters(None))), text) == around


def test_pieces_become_text_again(splitter):
    bpe = splitter()
    assert bpe.decode("the dog ##s play ##ing .") == "the dogs playing ."
    assert bpe.decode("今天 很 好 。 the dog") == "今天很好。 the dog"
    assert [bpe.is_beginning_of_word(piece) for piece in ("dog", "##s")] == [True, False]


def test_a_converted_model_fills_in_masked_words(tmp_path):
    pytest.importorskip("tokenizers")
    theirs = folder(tmp_path / "theirs", "bert")
    assert main(["convert", str(theirs), "--to", "plugin", "--out", str(tmp_path / "run")]) == 0
    model = RoFormerMaskedModel.from_pretrained(str(tmp_path / "run"))
    filled = model.fill_mask("The old <mask> sees a dog.", topk=30)
    assert len(filled) == len(PIECES) and sum(p for _, p, _ in filled) == pytest.approx(1, abs=1e-5)
    answers = {piece: p for _, p, piece in model.fill_mask("The old king <mask> a dog.", topk=30)}
    expected = logits(tmp_path / "run", IDS)[0, 4].softmax(-1)  # IDS[0] is this text
    assert all(
        answers[piece] == pytest.approx(float(expected[PIECES.index(piece)]), rel=1e-3) for piece in ("dog", "##s")
    )
    assert [p for _, p, _ in filled] == sorted((p for _, p, _ in filled), reverse=True)
    assert {"The old king sees a dog.", "The olds sees a dog."} <= {text for text, _, _ in filled}
    at_the_beginning = {text: piece for text, _, piece in model.fill_mask("<mask> dogs", topk=30)}
    assert at_the_beginning["s dogs"] == "##s" and at_the_beginning["the dogs"] == "the"
    assert model.fill_mask("今天<mask>好", topk=1)[0][0].startswith("今天")
    assert model.encode("the dogs", "a king").tolist()[-1] == 2 and model.decode(model.encode("the dogs")) == "the dogs"
    assert model.encode("the dogs", "a king").tolist().count(2) == 2  # [SEP], as in BERT: one behind each sentence
