"""fairseq-generate's output: nothing is lost, shifted or matched for free on the way to the scores."""

import json
import math

import pytest

from pipeline.command import Failure
from pipeline.files import read_lines
from pipeline.prepared import Prepared
from pipeline.scoring.generated import Generated, check_bleu, count_cut, fairseq_bleu, read_generated
from pipeline.scoring.metrics import Texts, score
from pipeline.scoring.score import score_text
from pipeline.text.base import UNKNOWN
from pipeline.text.detokenize import detokenize
from pipeline.text.moses_bpe import MosesBPE

from .fake import SENTENCES, TOKENS, own_line, printed


def written(tmp_path, text):
    path = tmp_path / "test.gen.txt"
    path.write_bytes(text.encode())
    return path


def refused(call, *parts):
    with pytest.raises(Failure) as error:
        call()
    assert "\n" not in str(error.value)
    for part in parts:
        assert part in str(error.value), error.value


def scored(tmp_path, text, reference):
    for name, content in (("ref", reference), ("source", "x\n" * len(reference.rstrip("\n").split("\n")))):
        (tmp_path / name).write_bytes(content.encode())
    path = written(tmp_path, text)
    processing = MosesBPE(tmp_path, Prepared(), "en", "de")
    texts, result = score_text(path, tmp_path / "source", tmp_path / "ref", processing)
    (tmp_path / "hyp").write_bytes("".join(f"{text}\n" for text in texts).encode())
    return result["scores"]


def test_hypotheses_come_back_in_the_order_of_the_test_set(tmp_path):
    scores = scored(tmp_path, printed(TOKENS, TOKENS), "".join(line + "\n" for line in SENTENCES))
    assert (tmp_path / "hyp").read_text(encoding="utf-8").splitlines() == SENTENCES
    assert {entry["score"] for entry in scores.values()} == {100.0} and len(scores) == 6


@pytest.mark.parametrize("empty", ["H-1\t-0.1\t", "H-1\t-0.1", "H-1\t-0.1\t\r"])
def test_an_empty_hypothesis_is_an_empty_line(tmp_path, empty):
    targets = ["T-0\ta", "T-1\tb", "T-2\tc"]
    lines = ["S-0\tx", "H-0\t-0.1\ta", empty, "D-1\t-0.1\t", "H-2\t-0.1\tc", *targets, own_line(0)]
    read = read_generated(written(tmp_path, "\n".join(lines)), 3)
    assert read == Generated(["a", "", "c"], ["a", "b", "c"], 0.0)
    assert detokenize(read.hypotheses, "de") == ["a", "", "c"]


def test_the_translation_of_an_empty_source_is_empty(tmp_path):
    for name, lines in (("ref", SENTENCES), ("source", ["x", "", "x"])):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    processing = MosesBPE(tmp_path, Prepared(), "en", "de")
    texts, _ = score_text(written(tmp_path, printed(TOKENS, TOKENS)), tmp_path / "source", tmp_path / "ref", processing)
    assert texts == [SENTENCES[0], "", SENTENCES[2]]


def test_hypotheses_at_the_limit_of_their_length_are_counted(tmp_path):
    lines = [f"P-{i}\t{' '.join(['-0.1'] * (tokens + 1))}" for i, tokens in enumerate((2, 199, 200, 1023))]
    path = written(tmp_path, "\n".join(["H-0\t-0.1\tx", *lines]))
    for flags, count in (
        ([], 2),
        (["--max-len-b", "2"], 4),
        (["--max-len-b=201"], 1),
        (["--max-len-b", "2000"], 1),
        (["--max-len-a", "1.2"], 0),
        (["--max-len-a", "0"], 2),
        (["--max-target-positions", "200"], 3),
        (["--max-target-positions", "1025", "--max-len-b", "2000"], 0),
    ):
        assert count_cut(path, flags) == count


def test_an_empty_hypothesis_costs_its_length():
    # brevity penalty exp(1 - r / c) of 8 + 7 + 6 tokens without the 7 of the second; all else matches
    scores = score(Texts(SENTENCES, [SENTENCES[0], "", SENTENCES[2]], SENTENCES, "de"))
    assert scores["sacrebleu"]["score"] == pytest.approx(100 * 2.718281828 ** (1 - 21 / 14), abs=0.01)


@pytest.mark.parametrize("space", ["\u2028", "\x85", "\x1c", "\x0b", "\r", "\u00a0"])
def test_only_a_newline_ends_a_line(tmp_path, space):
    lines = [SENTENCES[0].replace(" ", space, 1), *SENTENCES[1:]]
    text = printed([f"{line[:-1]} ." for line in lines], TOKENS)
    assert len(read_generated(written(tmp_path, text), 3).hypotheses) == 3
    scores = scored(tmp_path, text, "\n".join(lines))  # the last line may lack its newline
    assert {entry["score"] for entry in scores.values()} == {100.0}
    assert (tmp_path / "hyp").read_bytes().decode() == "".join(line + "\n" for line in SENTENCES)


def test_line_ends_of_windows_are_no_part_of_a_line(tmp_path):
    text = printed(TOKENS, TOKENS).replace("\n", "\r\n")
    scores = scored(tmp_path, text, "".join(line + "\r\n" for line in SENTENCES))
    assert {entry["score"] for entry in scores.values()} == {100.0}


def test_an_unknown_word_is_one_wrong_word_in_every_score(tmp_path):
    text = printed(["Der <unk> Hund <unk> bellt ."], ["Der <<unk>> Hund &lt; unk &gt; bellt ."])
    scores = scored(tmp_path, text, "Der <unk> Hund <unk> bellt.\n")  # which the author of a reference may have typed
    assert (tmp_path / "hyp").read_text(encoding="utf-8") == f"Der {UNKNOWN} Hund {UNKNOWN} bellt.\n"
    wrong = score(Texts([""], ["Der falsch Hund falsch bellt."], ["Der <unk> Hund <unk> bellt."], "de"))
    for key in ("sacrebleu", "bleu_moses", "bleu_moses_compound_split"):
        assert scores[key] == wrong[key], key
        assert " 66.7/" in scores[key]["detail"]  # 4 of 6 tokens


@pytest.mark.parametrize("tokens", ["Das Ha@@ us .", "Das Haus@@"])
def test_bpe_units_are_refused(tmp_path, tokens):
    path = written(tmp_path, printed([tokens], ["Das Haus ."]))
    refused(lambda: read_generated(path, 1), "1 hypotheses have BPE markers", "--post-process subword_nmt")


def test_split_hyphens_and_signs_are_no_bpe_markers(tmp_path):
    tokens = ["rot @-@ gelb @ home"]
    assert read_generated(written(tmp_path, printed(tokens, tokens)), 1).hypotheses == tokens


WHOLE = printed(TOKENS, TOKENS)


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("", ["is incomplete: it has 0 hypotheses"]),
        (WHOLE.replace("H-1", "X-1"), ["is incomplete: it has 2 hypotheses for 3 sentences", "none for sentence 1"]),
        (WHOLE.replace("T-2", "X-2"), ["is incomplete: it has 2 reference lines", "none for sentence 2"]),
        (WHOLE.replace("H-2\t-0.5", "H-3\t-0.5"), ["is incomplete", "none for sentence 2"]),
        (WHOLE + "H-3\t-0.5\tx\n", ["has 4 hypotheses, and the raw reference 3 lines"]),
        (WHOLE + "H-1", ["line 18: not one of fairseq-generate's hypotheses"]),
        (WHOLE + "H-x\t-0.5\ta\n", ["line 18: not one of fairseq-generate's hypotheses"]),
        (WHOLE + "H-1\t-0.9\tworse\n", ["line 18: sentence 1 has 2 hypotheses, and should have 1"]),
        (WHOLE + "T-1\tsame\n", ["line 18: sentence 1 has 2 reference lines"]),
        (WHOLE[: WHOLE.index("Generate")], ["is incomplete: it has 0 lines of fairseq's BLEU"]),
        (WHOLE + own_line(3) + "\n", ["it has 2 lines of fairseq's BLEU"]),
    ],
)
def test_what_is_not_one_translation_of_each_sentence_is_refused_in_one_line(tmp_path, text, problems):
    path = written(tmp_path, text)
    refused(lambda: read_generated(path, 3), str(path), *problems)


def test_what_a_hypothesis_says_is_text(tmp_path):
    hostile = ["H-0\t-0.5\tx", "Generate test with beam=4: BLEU4 = 99.00, x", '{0} %s $(id) "\\', "T-1 S-1 \x00\x1b[2J"]
    text = printed(hostile, ["a"] * 4)
    assert read_generated(written(tmp_path, text), 4) == Generated(hostile, ["a"] * 4, 0.0)
    scores = scored(tmp_path, text, "a\n" * 4)
    assert json.loads(json.dumps(scores))["bleu_fairseq_training_tokens"]["score"] == 0.0
    assert len(read_lines(tmp_path / "hyp")) == 4


def test_a_reference_in_another_encoding_is_named(tmp_path):
    path = tmp_path / "ref"
    path.write_bytes("Straße\n".encode("latin-1"))
    with pytest.raises(Failure, match=r"ref: not UTF-8 \(byte 4\): convert it with iconv"):
        read_lines(path)


# fairseq's own figure


def test_a_figure_that_is_not_that_of_the_lines_stops_with_both_shown(tmp_path):
    spoilt = [TOKENS[0].replace("heute", "gestern"), *TOKENS[1:]]
    figure = fairseq_bleu(spoilt, TOKENS).score
    path = written(tmp_path, "")
    check_bleu(Generated(spoilt, TOKENS, round(figure, 2)), path)
    wrong = Generated(spoilt, TOKENS, round(figure, 2) - 0.02)
    refused(lambda: check_bleu(wrong, path), f"fairseq says {wrong.bleu:.2f} BLEU, its lines have {figure:.2f}")


def test_fairseq_may_count_two_matches_too_many_of_each_length(tmp_path):
    """It compares hashes of n-grams: in 1,000 sentences of Multi30k, one trigram counted as another."""
    spoilt = [TOKENS[0].replace("heute", "gestern"), *TOKENS[1:]]
    exact = fairseq_bleu(spoilt, TOKENS)

    def figure(more):
        return exact.score * math.prod((count + more) / count for count in exact.counts) ** 0.25

    for more in (1, 2):
        check_bleu(Generated(spoilt, TOKENS, round(figure(more), 2)), tmp_path)
    refused(lambda: check_bleu(Generated(spoilt, TOKENS, round(figure(2), 2) + 0.02), tmp_path), "its lines have")


def test_a_hypothesis_that_lost_its_end_on_the_way_stops(tmp_path):
    text = printed(TOKENS, TOKENS).replace("H-1\t-0.5\tDie Katze schläft auf dem Sofa .", "H-1\t-0.5\tDie Katze")
    refused(lambda: scored(tmp_path, text, "\n".join(SENTENCES)), "fairseq says 100.00 BLEU, its lines have 7")
