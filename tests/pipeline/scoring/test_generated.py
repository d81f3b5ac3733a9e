"""fairseq-generate's output: nothing is lost, shifted or matched for free on the way to the scores."""

import pytest

from pipeline.command import Failure
from pipeline.prepared import Prepared
from pipeline.scoring.generate import Generated, count_cut, read_generated
from pipeline.scoring.metrics import Texts, score
from pipeline.scoring.score import score_text
from pipeline.text.base import UNKNOWN
from pipeline.text.moses_bpe import MosesBPE

from .fake import SENTENCES, TOKENS, own_line, printed

WHOLE = printed(TOKENS, TOKENS)


def written(tmp_path, text):
    path = tmp_path / "test.gen.txt"
    path.write_bytes(text.encode())
    return path


def scored(tmp_path, text, reference, source=None, tokenized=()):
    """The translations in this output, and their scores."""
    for name, content in (("ref", reference), ("source", source or "x\n" * len(reference.rstrip("\n").split("\n")))):
        (tmp_path / name).write_bytes(content.encode())
    processing = MosesBPE(tmp_path, Prepared(), "en", "de")
    sides = tmp_path / "source", tmp_path / "ref"
    texts, result = score_text(written(tmp_path, text), *sides, processing, tokenized=tokenized)
    return texts, result["scores"]


def perfect(scores):
    return {entry["score"] for entry in scores.values()} == {100.0}


def test_hypotheses_come_back_in_the_order_of_the_test_set(tmp_path):
    texts, scores = scored(tmp_path, WHOLE, "".join(line + "\n" for line in SENTENCES))
    assert texts == SENTENCES and perfect(scores) and len(scores) == 6


@pytest.mark.parametrize("empty", ["H-1\t-0.1\t", "H-1\t-0.1", "H-1\t-0.1\t\r"])
def test_an_empty_hypothesis_is_an_empty_line(tmp_path, empty):
    targets = ["T-0\ta", "T-1\tb", "T-2\tc"]
    lines = ["S-0\tx", "H-0\t-0.1\ta", empty, "D-1\t-0.1\t", "H-2\t-0.1\tc", *targets, own_line(0)]
    assert read_generated(written(tmp_path, "\n".join(lines)), 3) == Generated(["a", "", "c"], ["a", "b", "c"], 0.0)


def test_the_translation_of_a_source_without_tokens_is_empty(tmp_path):
    """An empty one, or one of characters that the splitting removes."""
    references = "".join(f"{line}\n" for line in SENTENCES)
    for source, tokenized in (("x\n\nx\n", ()), ("x\n\u200b\nx\n", ["x", "", "x"])):
        texts, _ = scored(tmp_path, WHOLE, references, source, tokenized)
        assert texts == [SENTENCES[0], "", SENTENCES[2]]


def test_hypotheses_at_the_limit_of_their_length_are_counted(tmp_path):
    lines = [f"P-{i}\t{' '.join(['-0.1'] * (tokens + 1))}" for i, tokens in enumerate((2, 199, 200, 1023))]
    path = written(tmp_path, "\n".join(["H-0\t-0.1\tx", *lines]))
    sources = ["a b c d"] * 4
    for flags, count in (
        ([], 2),
        (["--max-len-b", "2"], 4),
        (["--max-len-b=201"], 1),
        (["--max-len-b", "2000"], 1),
        (["--max-len-a", "2"], 1),
        (["--max-len-a", "2", "--max-len-b", "189"], 3),
        (["--max-len-a", "2", "--max-len-b", "190"], 2),
        (["--max-target-positions", "200"], 3),
        (["--max-target-positions", "1025", "--max-len-b", "2000"], 0),
    ):
        assert count_cut(path, flags, sources) == count
    assert count_cut(path, ["--max-len-a", "2"], []) == 0


@pytest.mark.parametrize("space", ["\u2028", "\x85", "\r"])
def test_only_a_newline_ends_a_line(tmp_path, space):
    lines = [SENTENCES[0].replace(" ", space, 1), *SENTENCES[1:]]
    text = printed([f"{line[:-1]} ." for line in lines], TOKENS)
    texts, scores = scored(tmp_path, text, "\n".join(lines))  # the last line may lack its newline
    assert texts == SENTENCES and perfect(scores)
    _, scores = scored(tmp_path, WHOLE.replace("\n", "\r\n"), "".join(line + "\r\n" for line in SENTENCES))
    assert perfect(scores)


def test_an_unknown_word_is_one_wrong_word_in_every_score(tmp_path):
    text = printed(["Der <unk> Hund <unk> bellt ."], ["Der <<unk>> Hund &lt; unk &gt; bellt ."])
    reference = "Der <unk> Hund <unk> bellt."  # which its author may have typed
    texts, scores = scored(tmp_path, text, f"{reference}\n")
    assert texts == [f"Der {UNKNOWN} Hund {UNKNOWN} bellt."]
    wrong = score(Texts([""], ["Der falsch Hund falsch bellt."], [reference], "de"))
    for key in ("sacrebleu", "bleu_moses", "bleu_moses_compound_split"):
        assert scores[key] == wrong[key], key
        assert " 66.7/" in scores[key]["detail"]  # 4 of 6 tokens


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (WHOLE.replace("H-1", "X-1"), "hypotheses"),
        (WHOLE.replace("T-2", "X-2"), "reference lines"),
        (WHOLE + "H-3\t-0.5\tx\n", "hypotheses"),
        (WHOLE + "H-1\t-0.9\tworse\n", "twice"),
        (WHOLE[: WHOLE.index("Generate")], "incomplete"),
        (WHOLE + own_line(3) + "\n", "2 times"),
    ],
)
def test_what_is_not_one_translation_of_each_sentence_is_refused(tmp_path, text, problem):
    with pytest.raises(Failure, match=problem):
        read_generated(written(tmp_path, text), 3)
