"""One object for text on both sides of a model: prepare.json chooses it, and each kind goes both ways."""

import sys

import pytest
import sentencepiece
from fairseq.data.data_utils import post_process
from fairseq.data.encoders.sentencepiece_bpe import SentencepieceBPE, SentencepieceConfig

from pipeline.command import Failure
from pipeline.corpus import bpe, learn_pieces
from pipeline.files import sha256, write_json
from pipeline.prepared import MODELS, read_prepared
from pipeline.processing.base import UNKNOWN
from pipeline.processing.kinds import KINDS, text_processing
from pipeline.processing.pieces import MODEL

from ..chinese import chinese

ENGLISH = ["The old king sees a dog.", "A man in a red shirt, on a ladder.", "It costs 5 % - or more (mostly)!"] * 20
CODES = "#version: 0.2\nt h\nth e</w>\n"


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A model of English and invented Chinese."""
    folder = tmp_path_factory.mktemp("learned")
    (folder / "train.en").write_text("\n".join(ENGLISH) + "\n", encoding="utf-8")
    (folder / "train.zh").write_text("\n".join(map(chinese, ENGLISH)) + "\n", encoding="utf-8")
    learn_pieces.learn([folder / "train.en", folder / "train.zh"], 120, folder / MODEL)
    return folder / MODEL


@pytest.fixture
def folder(learned, tmp_path):
    (tmp_path / MODEL).write_bytes(learned.read_bytes())
    (tmp_path / "bpecodes").write_text(CODES)
    return tmp_path


def processing(folder, kind, **entries):
    write_json(folder / "prepare.json", {"source": "en", "target": "zh-CN", "subwords": kind, **entries})
    return text_processing(folder, read_prepared(folder, "REMEDY"), "en", "zh-CN")


def test_prepare_json_chooses_the_kind(folder):
    for kind, expected in KINDS.items():
        assert type(processing(folder, kind)) is expected
    write_json(folder / "prepare.json", {"hyphens": "kept"})  # an older one
    assert type(text_processing(folder, read_prepared(folder, ""), "en", "de")) is KINDS["bpe"]


def test_a_kind_that_does_not_exist_is_named(folder):
    with pytest.raises(
        Failure, match=r"has 'unigram' as 'subwords', which must be 'bpe', 'sentencepiece', 'bytes' or 'none': "
    ):
        processing(folder, "unigram")


def test_bytes_of_unknown_characters_become_characters_again(tmp_path):
    """A model with byte_fallback, as users may bring it; ``prepare.sh`` learns none."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(ENGLISH), model_prefix=str(tmp_path / "m"), vocab_size=290, byte_fallback=True
    )
    (tmp_path / "m.model").rename(tmp_path / MODEL)
    pieces = processing(tmp_path, "sentencepiece")
    pieces.load("")
    sentences = ["A 5€ dog für me.", "狗", "The old king"]
    tokens = pieces.split(sentences)
    assert "<0xE2>" in tokens[0] and pieces.join(tokens) == pieces.text(tokens) == sentences


def test_text_that_only_looks_like_such_bytes_stays(folder):
    pieces = processing(folder, "sentencepiece")
    pieces.load("")
    sentences = ["The address <0x41> is read."]
    assert pieces.join(pieces.split(sentences)) == sentences


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
    assert processing(folder, "none").text(["a <unk> <<unk>> b"]) == [f"a {UNKNOWN} {UNKNOWN} b"]


def test_moses_and_bpe_go_both_ways(folder):
    ours = text_processing(folder, read_prepared(folder, ""), "en-GB", "de-AT")
    ours.load("REMEDY")
    split = ours.split(['The well-known "king" &\u00a0co.'])
    assert split[0].startswith("T@@ h@@ e w@@ e@@ l@@ l @@@ -@@ @ k@@ n@@ o@@ w@@ n &@@ q@@ u@@ o@@ t@@ ; ")
    assert ours.join(split) == ['The well-known "king" & co.']
    assert ours.join(["T@@ h@@"]) == ["Th"] and ours.text(["gibt &apos; s <unk> ."]) == [f"gibt's {UNKNOWN}."]


def test_tokens_stay_as_they_are(folder):
    ours = processing(folder, "none")
    ours.load("REMEDY")
    assert ours.split(["a@@ b\u2581 c\n"]) == ["a@@ b\u2581 c"] and ours.join(["a@@ b\u2581"]) == ["a@@ b\u2581"]


@pytest.mark.parametrize("kind", ["bpe", "sentencepiece"])
def test_a_missing_file_is_named_with_the_remedy(folder, kind):
    (folder / MODELS[kind]).unlink()
    with pytest.raises(Failure, match=rf"{MODELS[kind]}: missing: REMEDY$"):
        processing(folder, kind).load("REMEDY")
    with pytest.raises(Failure, match=r"missing: give it with scripts/prepare\.sh --binarized BIN --codes FILE, then"):
        processing(folder, kind, sha256={"dict.en.txt": "0"}).load("REMEDY")


@pytest.mark.parametrize("part", [0, 0.01, 0.3, 0.9, "a whole piece", "zeros", "text"])
def test_a_damaged_model_is_one_line(folder, part):
    whole = (folder / MODEL).read_bytes()
    other = {"zeros": b"\0" * 5000, "text": b"<html>" * 99, "a whole piece": pieces_of(whole)}
    (folder / MODEL).write_bytes(other[part] if part in other else whole[: int(len(whole) * part)])
    with pytest.raises(Failure) as error:
        processing(folder, "sentencepiece").load("REMEDY")
    assert str(error.value) == f"{folder / MODEL} is damaged: not a whole model of SentencePiece: REMEDY"
    digests = {MODEL: "0" * 64}
    with pytest.raises(Failure, match=r"is damaged: its SHA-256 is not that in prepare\.json: REMEDY"):
        processing(folder, "sentencepiece", sha256=digests).prepared.check([folder / MODEL], "REMEDY")
    assert sha256(folder / MODEL) != digests[MODEL]


def pieces_of(model):
    """The pieces of a model, without what follows them: the library reads them as a model."""
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    last = library.id_to_piece(len(library) - 1).encode("utf-8")
    part = model[: model.rindex(b"\n" + bytes([len(last)]) + last) + len(last) + 7]  # with its score
    assert len(sentencepiece.SentencePieceProcessor(model_proto=part)) == len(library)
    return part


@pytest.mark.parametrize("kind", ["bpe", "sentencepiece"])
def test_codes_that_were_cut_off_or_are_of_other_data_are_told_by_the_dictionary(tmp_path, learned, kind):
    """Without it, they split text in another way than in training, and nobody notices."""
    path, ours = tmp_path / MODELS[kind], KINDS[kind]
    if kind == "bpe":
        words = " ".join(ENGLISH).split()
        (tmp_path / "words").write_text(" ".join(words), encoding="utf-8")
        bpe.learn([tmp_path / "words"], 40, path, 1)
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


def test_a_library_that_is_not_installed_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(Failure, match=r"SentencePiece is not installed: run scripts/install\.sh, or pip install"):
        processing(folder, "sentencepiece").load("REMEDY")
