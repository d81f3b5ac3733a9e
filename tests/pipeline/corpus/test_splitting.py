"""Subwords: which kind, how many, by what command; and text that a kind cannot split."""

import io
import subprocess
import sys
import unicodedata

import pytest
import sentencepiece

from pipeline.command import Failure
from pipeline.corpus import learn_pieces
from pipeline.corpus.cleaning import clean
from pipeline.corpus.options import parse
from pipeline.corpus.shards import map_lines
from pipeline.corpus.spaces import check_marks, check_spaces
from pipeline.corpus.splitting import default_size
from pipeline.corpus.text import CorpusError
from pipeline.paths import RUN
from pipeline.recipes import load_recipe, recipe_names

from ...commands import ENVIRONMENT, ROOT
from ..chinese import chinese

SETS = ["--train", "a", "--valid", "b", "--test", "c", "--out", "d"]


def options(*words):
    return parse(["--", *SETS, *words])


def refused(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        parse(["--", "--out", "d", *words])
    error = capsys.readouterr().err
    assert ended.value.code == 2 and error.count("\n") == 1
    return error


# options


def test_the_size_follows_from_the_number_of_pairs():
    assert [default_size(n) for n in (4500000, 1000000, 999999, 100000, 29000, 10000, 6000, 1000, 400, 1)] == [
        *(37000, 37000, 16000, 16000, 8000, 8000, 2000, 2000, 500, 500)
    ]
    assert options().merges is None and options("--merges", "1").merges == 1


@pytest.mark.parametrize(
    ("recipe", "line"),
    [
        *(("demo", "merges 600, max-length 250 ratio 3"), ("mix", "merges 16000, max-length 250 ratio 1.5")),
        *((name, "merges 8000, max-length 250 ratio 1.5") for name in ("multi30k", "multi30k_cpu")),
        *((name, "merges 37000, max-length 250 ratio 1.5") for name in recipe_names() if name.startswith("wmt14")),
    ],
)
def test_the_settings_of_a_recipe_are_those_of_its_committed_results(recipe, line):
    args = options(*load_recipe(recipe).prepare_options)
    assert f"merges {args.merges}, max-length {args.max_length} ratio {args.ratio}" == line
    assert (args.subwords, args.keep_hyphens, args.vocabulary_threshold) == ("bpe", False, 0)


def test_no_ratio_is_asked_of_pieces_in_two_scripts(tmp_path):
    args = options("--subwords", "sentencepiece")
    assert (args.ratio, options().ratio, options("--ratio", "none").ratio) == ("none", "1.5", "none")
    assert options("--ratio", "1.5").ratio_given and not options().ratio_given
    for lang, line in (("en", "a b c d e f g h"), ("zh", "x")):
        (tmp_path / f"train.{lang}").write_text(f"{line}\n")
    prefix, out = str(tmp_path / "train"), str(tmp_path / "clean")
    assert clean(prefix, out, ("en", "zh"), 1, 250, float("inf"))["kept"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*SETS, "--subwords", "sentencepiece", "--merges", "9"], "--merges is for --subwords bpe"),
        ([*SETS, "--subwords", "sentencepiece", "--keep-hyphens"], "--keep-hyphens is for --subwords bpe"),
        ([*SETS, "--vocabulary", "9"], "--vocabulary is for --subwords sentencepiece"),
        ([*SETS, "--subwords", "none"], "--subwords none is for --binarized"),
        ([*SETS, "--codes", "x"], "--codes is for --binarized"),
        ([*SETS, "--ratio", "0.5"], "argument --ratio: must be a number, at least 1, or none, not '0.5'"),
        ([*SETS, "--ratio", "nan"], "not 'nan'"),
        ([*SETS, "--subwords", "sentencepiece", "--merges", "0"], "--merges: must be a whole number, at least 1"),
        ([*SETS, "--train", "other"], "--train is given twice: join its texts to one"),
        (["--train", "a"], "the following arguments are required: --valid, --test"),
        (["--binarized", "x"], "--binarized needs --subwords: 'bpe' (Moses tokens"),
        (["--binarized", "x", "--subwords", "bpe", "--merges", "9"], "--merges is for raw text"),
        (["--binarized", "x", "--subwords", "bpe", "--train", "9"], "--train is for raw text"),
        (["--binarized", "x", "--subwords", "none", "--codes", "9"], "--codes is for --subwords bpe or sentencepiece"),
    ],
)
def test_options_that_do_not_go_together_are_refused(capsys, words, message):
    assert message in refused(capsys, *words)


# spaces

UNSEGMENTED = {
    "zh": ["他说:“是的,就是这样。”", "2023年,有许多人去了北京和上海……", "是的。"],
    "ja": ["「はい」と彼は言った。", "私は2023年に東京へ行きました。", "カフェでコーヒーを3杯飲んだ。"],
    "th": ["ฉันไปโรงเรียนทุกวัน", "เขาพูดว่าใช่แล้วก็ไป"],
    "km": ["ខ្ញុំទៅសាលារៀនរាល់ថ្ងៃ"],
}
SEGMENTED = {
    "zh": ["他 说 : “ 是 的 , 就 是 这样 。 ”", "2023 年 , 许多 人 去 了 北京 和 上海 ……"],
    "th": ["ฉัน ไป โรงเรียน ทุก วัน", "เขา พูด ว่า ใช่ แล้ว ก็ ไป"],
    "ko": ["나는 학교에 갑니다.", "그는 안녕하세요라고 말했다."],
    "de": ["Donaudampfschifffahrtsgesellschaftskapitän 北京", "Rindfleischetikettierungsüberwachungsaufgabe"],
    "en": ["The word 中国 means China."],
}


def written(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("lang", UNSEGMENTED)
def test_text_without_spaces_is_told_before_anything_else(tmp_path, lang):
    message = r"no spaces separate its words \(\d+ characters between two spaces\).*: give --subwords sentencepiece"
    with pytest.raises(CorpusError, match=message):
        check_spaces(written(tmp_path / f"train.{lang}", UNSEGMENTED[lang]))


@pytest.mark.parametrize("lang", SEGMENTED)
def test_text_with_spaces_passes_whatever_its_language_is_called(tmp_path, lang):
    check_spaces(written(tmp_path / "train.zh", SEGMENTED[lang]))


def test_marks_that_moses_tears_off_are_told(tmp_path, capsys):
    text = ["Vous avez pass\u00e9 l'\u00e9t\u00e9 \u00e0 la mer"] * 9
    check_marks(written(tmp_path / "train.fr", text), "fr")
    assert not capsys.readouterr().err
    check_marks(written(tmp_path / "train.fr", [unicodedata.normalize("NFD", line) for line in text]), "fr")
    assert "train.fr: Moses splits 36 combining marks from their letters" in capsys.readouterr().err


# SentencePiece


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
    numbers = learn_pieces.learn(paths, 400, corpus / "model")
    assert numbers["coverage"] == 1.0 and numbers["pieces"] <= 400
    return corpus / "model"


def test_the_model_is_the_librarys_and_depends_on_the_text_alone(corpus, model, tmp_path):
    for name in ("train.en", "train.zh"):
        (tmp_path / name).write_bytes((corpus / name).read_bytes())
    learn_pieces.learn([tmp_path / "train.en", tmp_path / "train.zh"], 400, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == model.read_bytes()
    lines = [line for name in ("train.en", "train.zh") for line in (corpus / name).read_text("utf-8").split("\n")[:-1]]
    (tmp_path / "rules").write_text(learn_pieces.normalization_rules())
    settings = dict(vocab_size=400, hard_vocab_limit=False, character_coverage=1.0, pad_id=3, model_type="bpe")
    settings.update(normalization_rule_tsv=str(tmp_path / "rules"), minloglevel=2)
    whole = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=whole, **settings)
    models = [sentencepiece.SentencePieceProcessor(model_proto=m) for m in (whole.getvalue(), model.read_bytes())]
    pieces = [[m.id_to_piece(i) for i in range(m.get_piece_size())] for m in models]
    assert pieces[0] == pieces[1] and models[0].encode(lines) == models[1].encode(lines)


def test_text_comes_back_as_it_was_but_for_spaces_and_control_characters(model):
    library = sentencepiece.SentencePieceProcessor(model_file=str(model))
    lines = ["他说：“是的，就是这样！”（ＡＢＣ、１２３）", "½ ﬁ e\u0301 \u00e9 … „Ja“", "カフェ ｶﾌｪ"]  # noqa: RUF001
    assert ["".join(library.encode(line, out_type=str)).replace("\u2581", " ").strip() for line in lines] == lines
    odd = "a\tb\u00a0c\u3000d\u2009e\x85f\x07g\ufeffh \u2581 i"
    assert library.encode(odd, out_type=str) == library.encode("a b c d e fgh i", out_type=str)
    every = "".join(chr(code) for code in range(1, 0x11000) if not 0xD800 <= code <= 0xDFFF and chr(code) != "\n")
    assert all(piece.split() == [piece] for piece in library.encode(every, out_type=str))


@pytest.mark.parametrize("workers", [1, 2])
def test_shards_are_split_as_the_library_splits_the_whole(corpus, model, tmp_path, workers):
    command = [sys.executable, str(RUN), "pipeline.processing.pieces", str(model)]
    for name in ("train.en", "train.zh"):
        map_lines(command, corpus / name, tmp_path / name, workers, 100, name)
        lines = (corpus / name).read_text(encoding="utf-8").split("\n")[:-1]
        library = sentencepiece.SentencePieceProcessor(model_file=str(model))
        expected = "".join(" ".join(library.encode(line, out_type=str)) + "\n" for line in lines)
        assert (tmp_path / name).read_text(encoding="utf-8") == expected


def test_the_names_of_special_symbols_are_no_pieces(corpus, model):
    library = sentencepiece.SentencePieceProcessor(model_file=str(model))
    pieces = library.encode("<unk> <s> </s> <pad> <unk>", out_type=str)
    assert not {"<unk>", "<s>", "</s>", "<pad>"} & set(pieces)


def test_too_few_pieces_for_the_characters_are_refused(corpus, tmp_path):
    with pytest.raises(
        Failure, match=r"--vocabulary 20 is too small for the characters of the text: raise it to \d+00$"
    ):
        learn_pieces.learn([corpus / "train.en", corpus / "train.zh"], 20, tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_text_without_words_is_refused(tmp_path):
    (tmp_path / "train.en").write_text("\n \n")
    with pytest.raises(Failure, match=r"no words in .*/train\.en: nothing to learn pieces from"):
        learn_pieces.learn([tmp_path / "train.en"], 20, tmp_path / "model")


def test_the_default_has_room_for_every_character(tmp_path):
    (tmp_path / "train.en").write_text("a\n" * 1500)
    (tmp_path / "train.zh").write_text("".join(f"{chr(0x4E00 + i)}\n" for i in range(1500)), encoding="utf-8")
    sides = [tmp_path / f"train.{lang}" for lang in ("en", "zh")]
    assert learn_pieces.enough_pieces(sides) == 3100  # 1,501 characters, and as many pieces again
    learned = learn_pieces.learn(sides, 3100, tmp_path / "model")
    assert learned["coverage"] == 1 and learned["characters"] == 1501


def test_many_characters_leave_half_of_the_pieces_to_words(tmp_path):
    many = "".join(chr(0x4E00 + i) for i in range(300))
    written(tmp_path / "train.zh", ["天地玄黄宇宙洪荒" * 50] * 200 + [many])
    assert learn_pieces.train([tmp_path / "train.zh"], 1000)[1]["coverage"] == 1.0
    assert learn_pieces.train([tmp_path / "train.zh"], 500)[1] == {"characters": 308, "coverage": 0.9995}


def test_the_splitting_command_ends_at_a_damaged_model_in_one_line(tmp_path):
    (tmp_path / "model").write_bytes(b"half")
    command = [sys.executable, str(RUN), "pipeline.processing.pieces", str(tmp_path / "model")]
    done = subprocess.run(command, input=b"x\n", capture_output=True, env=ENVIRONMENT)
    assert done.returncode == 1 and done.stderr.count(b"\n") == 1
    assert b"is damaged: not a whole model of SentencePiece: run scripts/prepare.sh again" in done.stderr
