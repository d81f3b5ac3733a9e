"""SentencePiece: the model depends on the text alone; text comes back; what is refused."""

import pytest
import sentencepiece

from pipeline.command import Failure
from pipeline.text import sentencepiece as ours

from ...commands import ROOT
from ..chinese import chinese


def written(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A small parallel corpus, English and invented Chinese."""
    folder = tmp_path_factory.mktemp("corpus")
    english = (ROOT / "data/demo/train.en").read_text(encoding="utf-8").splitlines()[:300]
    written(folder / "train.en", [*english, "", "odd: \u3000 <unk> </s> <pad> \U0001f600 e\u0301"])
    written(folder / "train.zh", [*map(chinese, english), "", "奇怪"])
    return folder


@pytest.fixture(scope="module")
def model(corpus):
    paths = [corpus / "train.en", corpus / "train.zh"]
    numbers = ours.learn(paths, 400, corpus / "model")
    assert numbers["coverage"] == 1.0 and numbers["pieces"] <= 400
    return corpus / "model"


def test_the_model_depends_on_the_text_alone(corpus, model, tmp_path):
    for name in ("train.en", "train.zh"):
        (tmp_path / name).write_bytes((corpus / name).read_bytes())
    ours.learn([tmp_path / "train.en", tmp_path / "train.zh"], 400, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == model.read_bytes()


def test_text_comes_back_as_it_was_but_for_spaces_and_control_characters(model):
    library = sentencepiece.SentencePieceProcessor(model_file=str(model))
    lines = ["他说：“是的，就是这样！”（ＡＢＣ、１２３）", "½ ﬁ e\u0301 \u00e9 … „Ja“", "カフェ ｶﾌｪ"]  # noqa: RUF001
    assert ["".join(library.encode(line, out_type=str)).replace("\u2581", " ").strip() for line in lines] == lines
    odd = "a\tb\u00a0c\u3000d\u2009e\x85f\x07g\ufeffh \u2581 i"
    assert library.encode(odd, out_type=str) == library.encode("a b c d e fgh i", out_type=str)
    every = "".join(chr(code) for code in range(1, 0x11000) if not 0xD800 <= code <= 0xDFFF and chr(code) != "\n")
    assert all(piece.split() == [piece] for piece in library.encode(every, out_type=str))


def test_the_names_of_special_symbols_are_no_pieces(corpus, model):
    library = sentencepiece.SentencePieceProcessor(model_file=str(model))
    pieces = library.encode("<unk> <s> </s> <pad> <unk>", out_type=str)
    assert not {"<unk>", "<s>", "</s>", "<pad>"} & set(pieces)


def test_a_vocabulary_has_room_for_every_character_or_is_refused(tmp_path):
    (tmp_path / "train.en").write_text("a\n" * 1500)
    (tmp_path / "train.zh").write_text("".join(f"{chr(0x4E00 + i)}\n" for i in range(1500)), encoding="utf-8")
    sides = [tmp_path / f"train.{lang}" for lang in ("en", "zh")]
    assert ours.enough_pieces(sides) == 3100  # 1,501 characters, and as many pieces again
    with pytest.raises(Failure, match=r"--vocabulary 20 is too small .*: raise it to \d+00$"):
        ours.learn(sides, 20, tmp_path / "model")
    learned = ours.learn(sides, 3100, tmp_path / "model")
    assert learned["coverage"] == 1 and learned["characters"] == 1501
