"""One object for text on both sides of a model: prepare.json chooses it, and each kind goes both ways."""

import pytest
import sentencepiece
from fairseq.data.data_utils import post_process
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig

from pipeline.command import Failure
from pipeline.files import write_json
from pipeline.prepared import read_prepared
from pipeline.text import TEXTS, moses_bpe, text_processing
from pipeline.text import sentencepiece as pieces
from pipeline.text.base import UNKNOWN

from ..chinese import chinese

ENGLISH = ["The old king sees a dog.", "A man in a red shirt, on a ladder.", "It costs 5 % - or more (mostly)!"] * 20
MODEL = TEXTS["sentencepiece"].codes
CODES = "#version: 0.2\nt h\nth e</w>\n"


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A model of English and invented Chinese."""
    folder = tmp_path_factory.mktemp("learned")
    (folder / "train.en").write_text("\n".join(ENGLISH) + "\n", encoding="utf-8")
    (folder / "train.zh").write_text("\n".join(map(chinese, ENGLISH)) + "\n", encoding="utf-8")
    pieces.learn([folder / "train.en", folder / "train.zh"], 120, folder / MODEL)
    return folder / MODEL


@pytest.fixture
def folder(learned, tmp_path):
    (tmp_path / MODEL).write_bytes(learned.read_bytes())
    (tmp_path / "bpecodes").write_text(CODES)
    return tmp_path


def processing(folder, kind):
    write_json(folder / "prepare.json", {"source": "en", "target": "zh-CN", "subwords": kind})
    return text_processing(folder, read_prepared(folder, "REMEDY"), "en", "zh-CN")


def test_prepare_json_chooses_the_kind(folder):
    for kind, expected in TEXTS.items():
        assert type(processing(folder, kind)) is expected
    write_json(folder / "prepare.json", {"hyphens": "kept"})  # an older one
    assert type(text_processing(folder, read_prepared(folder, ""), "en", "de")) is TEXTS["bpe"]
    with pytest.raises(Failure, match=r"prepare\.json has 'unigram' as 'subwords'"):
        processing(folder, "unigram")


def test_bytes_of_unknown_characters_become_characters_again(tmp_path):
    """A model with byte_fallback, as users may bring it; ``prepare.sh`` learns none."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(ENGLISH), model_prefix=str(tmp_path / "m"), vocab_size=290, byte_fallback=True
    )
    (tmp_path / "m.model").rename(tmp_path / MODEL)
    ours = processing(tmp_path, "sentencepiece")
    ours.load("")
    sentences = ["A 5€ dog für me.", "狗", "The old king"]
    tokens = ours.split(sentences)
    assert "<0xE2>" in tokens[0] and ours.join(tokens) == ours.text(tokens) == sentences


def test_pieces_are_those_of_the_library_and_of_fairseq(folder, learned):
    ours = processing(folder, "sentencepiece")
    ours.load("REMEDY")
    library = sentencepiece.SentencePieceProcessor(model_file=str(learned))
    fairseqs = SentencepieceBPE(SentencepieceConfig(sentencepiece_model=str(learned)))
    lines = [*ENGLISH[:3], *map(chinese, ENGLISH[:3])]
    for line in lines:
        split = ours.split([line])[0]
        assert split == " ".join(library.encode(line, out_type=str)) == fairseqs.encode(line)
        assert ours.join([split]) == ours.text([split]) == [line] == [fairseqs.decode(split)]
        assert post_process(split, "sentencepiece") == line
    assert ours.split(["  The\tking\n", ""]) == [ours.split(["The king"])[0], ""]
    assert ours.post_process == ""  # fairseq-generate prints pieces: its BLEU then means something in any script


def test_what_the_dictionary_does_not_know_is_one_sign_in_text(folder):
    line = "\u2581The <unk> \u2581<<unk>> ing <<unk>>"
    assert processing(folder, "sentencepiece").text([line]) == [f"The{UNKNOWN} <<unk>>ing{UNKNOWN}"]
    tokens = processing(folder, "none")
    assert tokens.text(["a <unk> <<unk>> b"]) == [f"a {UNKNOWN} {UNKNOWN} b"]
    assert tokens.split(["a@@ b\u2581 c\n"]) == ["a@@ b\u2581 c"] and tokens.join(["a@@ b\u2581"]) == ["a@@ b\u2581"]


def test_moses_and_bpe_go_both_ways(folder):
    ours = text_processing(folder, read_prepared(folder, ""), "en-GB", "de-AT")
    ours.load("REMEDY")
    split = ours.split(['The well-known "king" &\u00a0co.'])
    assert split[0].startswith("T@@ h@@ e w@@ e@@ l@@ l @@@ -@@ @ k@@ n@@ o@@ w@@ n &@@ q@@ u@@ o@@ t@@ ; ")
    assert ours.join(split) == ['The well-known "king" & co.']
    assert ours.join(["T@@ h@@"]) == ["Th"] and ours.text(["gibt &apos; s <unk> ."]) == [f"gibt's {UNKNOWN}."]


@pytest.mark.parametrize("kind", ["bpe", "sentencepiece"])
def test_a_missing_or_damaged_file_is_named_with_the_remedy(folder, kind):
    for content, message in ((None, "missing: REMEDY"), (b"\0" * 5000, "is damaged: .*: REMEDY")):
        file = folder / TEXTS[kind].codes
        file.unlink() if content is None else file.write_bytes(content)
        with pytest.raises(Failure, match=f"{TEXTS[kind].codes}:? {message}$"):
            processing(folder, kind).load("REMEDY")


@pytest.mark.parametrize("kind", ["bpe", "sentencepiece"])
def test_codes_that_were_cut_off_or_are_of_other_data_are_told_by_the_dictionary(tmp_path, learned, kind):
    """Without it, they split text in another way than in training, and nobody notices."""
    path, ours = tmp_path / TEXTS[kind].codes, TEXTS[kind]
    if kind == "bpe":
        words = " ".join(ENGLISH).split()
        (tmp_path / "words").write_text(" ".join(words), encoding="utf-8")
        moses_bpe.learn([tmp_path / "words"], 40, path, 1)
        types = sorted({part for word in words for part in ours.read(path, "").segment_tokens([word])})
        unknown = "\u9f98"
    else:
        path.write_bytes(learned.read_bytes())
        library = sentencepiece.SentencePieceProcessor(model_file=str(learned))
        types = [library.id_to_piece(i) for i in range(4, len(library))]
        unknown = "\u9f98\u9f98"  # characters that the model does not know are one token
    ours.check_codes(path, [*types * 4, unknown, "<tag>", *(f"madeupword000{i}" for i in range(7))], "REMEDY")
    with pytest.raises(Failure, match=rf"{path} is cut off, or of other data: of \d+ types in .*: REMEDY$"):
        ours.check_codes(path, [*types, types[5] * 3, types[6] * 3], "REMEDY")
    if kind == "bpe":
        path.write_text("".join(path.read_text().splitlines(keepends=True)[:-3]), encoding="utf-8")
        with pytest.raises(Failure, match="is cut off, or of other data"):
            ours.check_codes(path, types, "REMEDY")
