"""Documents: read, cut into blocks for training and for tests, and put together again."""

import gzip
import json

import pytest
from sacrebleu import corpus_bleu

from pipeline.command import Failure
from pipeline.corpus.blocks import copy_documents, documents, growing, write_test_blocks, write_training_blocks
from pipeline.prepared import Prepared
from pipeline.scoring.metrics import Texts, score
from pipeline.scoring.score import by_document
from pipeline.text.segments import block_tokens, packed, split_segments

LANGS = ("en", "de")


def segments(*lengths):
    """Segments of so many tokens on each side, all different."""
    names = iter(range(1000))
    return [
        (" ".join(f"s{next(names)}" for _ in range(n)), " ".join(f"t{next(names)}" for _ in range(n))) for n in lengths
    ]


@pytest.mark.parametrize("count", range(1, 20))
def test_growing_blocks_have_each_segment_once_a_resolution_and_no_block_twice(count):
    document = segments(*[1] * count)
    blocks = [tuple(block) for block in growing(document, 1000)]
    assert len(set(blocks)) == len(blocks)
    assert blocks[:count] == [(segment,) for segment in document] and tuple(document) in blocks
    size = 2
    while size <= count:
        of_size = [block for block in blocks if len(block) == size]
        in_blocks = [segment for block in of_size for segment in block]
        assert in_blocks[: count // size * size] == document[: count // size * size]
        size *= 2
    assert all(block == tuple(document[(i := document.index(block[0])) : i + len(block)]) for block in blocks)


def test_growing_blocks_keep_to_the_limit_on_both_sides():
    source_long, target_long = ("a b c d", "x"), ("a", "x y z u v")
    found = list(growing([source_long, target_long, *segments(1, 1)], 5))  # with separators: 4+1+1, 1+5+1, 1+1+1
    assert [len(block) for block in found] == [1, 1, 1, 1, 2]


def test_packed_blocks_are_the_whole_document_within_the_limit():
    document = segments(3, 1, 2, 9, 1, 1)
    blocks = list(packed(document, 6, lambda pair: len(pair[0].split())))
    assert [segment for block in blocks for segment in block] == document
    assert [len(block) for block in blocks] == [2, 1, 1, 2]  # 3+1+1; 2; 9 alone; 1+1+1


@pytest.fixture
def corpus(tmp_path):
    """Writes a corpus as parallel text and as a table; returns its name in either form."""

    def write(*documents, form):
        if form == "table":
            rows = [f"d{i}\t{source}\t{target}\n" for i, each in enumerate(documents) for source, target in each]
            with gzip.open(tmp_path / "corpus.tsv.gz", "wt") as file:
                file.writelines(rows)
        else:
            for side, lang in enumerate(LANGS):
                text = "\n\n".join("\n".join(segment[side] for segment in each) for each in documents)
                (tmp_path / f"corpus.{lang}").write_text(f"{text}\n")
        return str(tmp_path / "corpus")

    return write


@pytest.mark.parametrize("form", ["table", "parallel"])
def test_documents_are_read_from_a_table_and_from_parallel_text(corpus, form):
    first, second = segments(2, 3), segments(1)
    assert list(documents(corpus(first, second, form=form), LANGS)) == [first, second]


def test_a_user_who_forgot_the_empty_lines_between_documents_is_told(corpus, tmp_path, capsys):
    for texts, lines in (([segments(2, 3)], 1), ([segments(2), segments(3)], 0), ([segments(2)], 0)):
        counts = copy_documents(corpus(*texts, form="parallel"), tmp_path / "out", LANGS)
        assert counts == {"pairs": sum(map(len, texts)), "documents": list(map(len, texts))}
        assert capsys.readouterr().err.count("\n") == lines


def test_text_that_is_not_aligned_or_has_the_separator_is_refused(corpus, tmp_path):
    with pytest.raises(Failure, match="<sep>"):
        list(documents(corpus([("a <sep> b", "c")], form="table"), LANGS))
    (tmp_path / "corpus.tsv.gz").unlink()
    (tmp_path / "corpus.en").write_text("a\n\nb\n")
    (tmp_path / "corpus.de").write_text("a\nb\n\n")
    with pytest.raises(Failure, match="line 2: empty on one side"):
        list(documents(str(tmp_path / "corpus"), LANGS))
    for rows, problem in (
        ("a\tb\n", "line 1: 2 columns"),
        ("document\tsource\ttarget\nd\ta\tb\n", "line 1: has the names of the columns"),
        ("document\tsource\ttarget\r\nd\ta\tb\r\n", "line 1: has the names of the columns"),
        ("d\ta\tb\ne\ta\tb\nd\ta\tb\n", "document d begins a second time"),
    ):
        (tmp_path / "corpus.tsv").write_text(rows)
        with pytest.raises(Failure, match=problem):
            list(documents(str(tmp_path / "corpus"), LANGS))


def test_segments_too_long_for_any_block_of_two_are_refused(tmp_path):
    """A model of them would not know the separator, which is in every block of a longer text."""
    for lang in LANGS:
        (tmp_path / f"train.clean.{lang}").write_text("a b c\nd e f\n\ng\n")
    with pytest.raises(Failure, match="give more --document-tokens"):
        write_training_blocks(tmp_path, LANGS, 6)
    assert write_training_blocks(tmp_path, LANGS, 7) == {"sentences": 3, "blocks": 4}


@pytest.mark.parametrize("flags,tokens", [("", 40), ("--train-subset train", 40), ("--train-subset sentences", 0)])
def test_a_model_of_segments_alone_is_none_of_documents(tmp_path, flags, tokens):
    (tmp_path / "run.json").write_text(json.dumps({"flags": f"--arch a {flags} --seed 1"}))
    assert block_tokens(tmp_path, Prepared(document_tokens=40)) == tokens


def test_dropped_pairs_and_ends_of_documents_interrupt_training_blocks(tmp_path):
    for side, lang in enumerate(LANGS):
        words = segments(1, 1, 1, 1)
        lines = [words[0][side], words[1][side], "", words[2][side], "", "", words[3][side]]
        (tmp_path / f"train.clean.{lang}").write_text("".join(f"{line}\n" for line in lines))
    assert write_training_blocks(tmp_path, LANGS, 100) == {"sentences": 4, "blocks": 5}
    blocks = (tmp_path / "train.blocks.en").read_text().splitlines()
    assert [len(split_segments(block)) for block in blocks] == [1, 1, 2, 1, 1]


def test_blocks_of_a_test_set_make_its_documents_again(tmp_path):
    """Also where raw text and tokens differ in their numbers of words."""
    document_sizes = [3, 1]
    tokens = [(source, f"{target} x y z") for source, target in segments(4, 4, 2, 6)]  # the source counts
    for folder, change in (("bpe", str), ("raw", lambda line: line.replace(" ", ""))):
        (tmp_path / folder).mkdir()
        for side, lang in enumerate(LANGS):
            text = "".join(f"{change(segment[side])}\n" for segment in tokens)
            (tmp_path / folder / f"test.{lang}").write_text(text)
    (tmp_path / "raw/test.json").write_text(json.dumps({"pairs": 4, "documents": document_sizes}))
    write_test_blocks(tmp_path, "bpe", LANGS, {"test1": ("test", 9)})
    counts = json.loads((tmp_path / "raw/test1.json").read_text())
    assert counts == {"pairs": 3, "documents": [3, 1], "blocks": [2, 1, 1]}
    sources, references = ((tmp_path / f"raw/test1.{lang}").read_text().splitlines() for lang in LANGS)
    texts = by_document(Texts(sources, references, references, "de"), counts)
    whole = [segment[1].replace(" ", "") for segment in tokens]
    assert list(texts.references) == list(texts.hypotheses) == [" ".join(whole[:3]), whole[3]]


def test_scores_of_documents_count_lengths_and_segments():
    references = ["eins zwei drei vier <sep> fünf sechs sieben acht", "neun zehn elf zwölf"]

    def scores(first):
        texts = Texts(references, [first, references[1]], references, "de")
        found = score(by_document(texts, {"documents": [2, 1], "blocks": [2, 1]}))
        return {key: entry["score"] for key, entry in found.items()}

    whole = {"sacrebleu": 100, "chrf": 100, "length_ratio": 100, "right_segments": 50, "segment_bleu": 100}
    assert scores("eins zwei drei vier fünf sechs sieben acht") == whole  # the separator is lost
    assert scores("")["length_ratio"] == pytest.approx(100 * 4 / 12, abs=0.01)
    shorter, whole = (
        ["eins zwei drei vier", "fünf sechs sieben", references[1]],
        " <sep> ".join(references).split(" <sep> "),
    )
    assert scores(" <sep> ".join(shorter[:2]))["segment_bleu"] == round(corpus_bleu(shorter, [whole]).score, 2)
