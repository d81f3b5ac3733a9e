"""From fairseq-generate's output to text: nothing is lost, shifted or matched for free on the way to the scores."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from sacremoses import MosesTokenizer

from pipeline.scoring import score as score_module
from pipeline.scoring.score import UNKNOWN, ScoreError, detokenize, moses_tokenize, read_hypotheses, read_lines, score

SENTENCES = ["Der Hund läuft heute über die Straße.", "Die Katze schläft auf dem Sofa.", "Drei Vögel singen im Baum."]
ROUND_TRIP = {
    "de": [
        "Der rot-gelbe Hund fährt mit 210 km/h.",
        "Es gibt's bei O'Connor, und L'Oréal macht's auch so.",
        "Er sagt: \"Ja, wir sind's\", und McDonald's zahlt 1.000 £ Strafe.",
        "Müller & Söhne [siehe S. 3 | 4] steht für {oder < und > oder} 100%.",
        "Er rief: 'Hilf mir', z. B. am 3. Mai, für 1.234,56 Mark (3% mehr)!",
        "Siehe http://beispiel.de/a-b oder und/oder... ja?",
    ],
    "en": [
        "The red-yellow dog doesn't pay £1,000 for the Joneses' house.",
        "\"It's Marks & Spencer's,\" he said [see p. 3 | 4], at 210 km/h.",
    ],
}


@pytest.mark.parametrize("hyphens_split", [True, False])
@pytest.mark.parametrize("lang", ROUND_TRIP)
def test_detokenisation_undoes_the_tokenisation_of_the_training_data(lang, hyphens_split):
    tokenizer = MosesTokenizer(lang)
    tokens = [tokenizer.tokenize(text, hyphens_split, return_str=True) for text in ROUND_TRIP[lang]]
    assert any("@-@" in line for line in tokens) == hyphens_split
    assert detokenize(tokens, lang) == ROUND_TRIP[lang]


@pytest.mark.parametrize("lang", ROUND_TRIP)
def test_moses_tokens_survive_detokenisation(lang):
    # why the scores on Moses tokens do not depend on the detokeniser
    tokens = moses_tokenize(ROUND_TRIP[lang], lang)
    assert moses_tokenize(detokenize(tokens, lang), lang) == tokens


def test_quotes_of_german_stay_quotes():
    assert detokenize(["Er sagt &apos; so nicht &apos; ."], "de") == ["Er sagt 'so nicht'."]


def generated(tmp_path, *lines):
    path = tmp_path / "gen.txt"
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    return path


def run(path, reference, *, fails=False):
    """score.py on files; the scores, or the error message."""
    (path.parent / "ref").write_bytes(reference.encode())
    command = [sys.executable, score_module.__file__, "--generated", path, "--reference", path.parent / "ref"]
    command += ["--out", path.parent / "out.json", "--hypotheses", path.parent / "hyp"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert bool(done.returncode) == fails, done.stderr
    if fails:
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
        return done.stderr
    return json.loads((path.parent / "out.json").read_text())["scores"]


def test_hypotheses_come_back_in_the_order_of_the_test_set(tmp_path):
    path = generated(tmp_path, *(f"H-{i}\t-0.5\t{SENTENCES[i][:-1]} ." for i in (2, 0, 1)), "BLEU4 = 12.34, 50.0/20.0")
    scores = run(path, "".join(line + "\n" for line in SENTENCES))
    assert (tmp_path / "hyp").read_text(encoding="utf-8").splitlines() == SENTENCES
    assert scores.pop("bleu_fairseq_training_tokens")["score"] == 12.34
    assert {entry["score"] for entry in scores.values()} == {100.0}


@pytest.mark.parametrize("empty", ["H-1\t-0.1\t", "H-1\t-0.1", "H-1\t-0.1\t\r"])
def test_an_empty_hypothesis_is_an_empty_line(tmp_path, empty):
    path = generated(tmp_path, "S-0\tx", "H-0\t-0.1\ta", empty, "D-1\t-0.1\t", "H-2\t-0.1\tc")
    assert read_hypotheses(path) == ["a", "", "c"]
    assert detokenize(read_hypotheses(path), "de") == ["a", "", "c"]


def test_an_empty_hypothesis_costs_its_length():
    # brevity penalty exp(1 - r / c) of 8 + 7 + 6 tokens without the 7 of the second; all else matches
    scores = score([SENTENCES[0], "", SENTENCES[2]], SENTENCES, "de")
    assert scores["sacrebleu"]["score"] == pytest.approx(100 * 2.718281828 ** (1 - 21 / 14), abs=0.01)


def test_the_first_of_several_hypotheses_is_the_best(tmp_path):
    path = generated(tmp_path, "H-1\t-0.1\tbest", "H-1\t-0.9\tworse", "H-0\t-0.2\tone", "H-0\t-0.3\ttwo")
    assert read_hypotheses(path) == ["one", "best"]


@pytest.mark.parametrize("space", ["\u2028", "\x85", "\x1c", "\x0b", "\r", "\u00a0"])
def test_only_a_newline_ends_a_line(tmp_path, space):
    lines = [SENTENCES[0].replace(" ", space, 1), *SENTENCES[1:]]
    path = generated(tmp_path, *(f"H-{i}\t-0.5\t{line[:-1]} ." for i, line in enumerate(lines)))
    assert len(read_lines(path)) == len(read_hypotheses(path)) == 3
    scores = run(path, "\n".join(lines))  # the last line may lack its newline
    assert {entry["score"] for entry in scores.values()} == {100.0}
    assert (tmp_path / "hyp").read_bytes().decode() == "".join(line + "\n" for line in SENTENCES)


def test_line_ends_of_windows_are_no_part_of_a_line(tmp_path):
    path = generated(tmp_path, *(f"H-{i}\t-0.5\t{line[:-1]} .\r" for i, line in enumerate(SENTENCES)))
    scores = run(path, "".join(line + "\r\n" for line in SENTENCES))
    assert {entry["score"] for entry in scores.values()} == {100.0}


def test_an_unknown_word_is_one_wrong_word_in_every_score(tmp_path):
    path = generated(tmp_path, "T-0\tDer <<unk>> Hund &lt; unk &gt; bellt .", "H-0\t-0.1\tDer <unk> Hund <unk> bellt .")
    hypotheses = detokenize(read_hypotheses(path), "de")
    assert hypotheses == [f"Der {UNKNOWN} Hund {UNKNOWN} bellt."]
    wrong = score(["Der falsch Hund falsch bellt."], ["Der <unk> Hund <unk> bellt."], "de")
    scores = score(hypotheses, ["Der <unk> Hund <unk> bellt."], "de")  # which the author of a reference may have typed
    for key in ("sacrebleu", "bleu_moses", "bleu_moses_compound_split"):
        assert scores[key] == wrong[key], key
        assert " 66.7/" in scores[key]["detail"]  # 4 of 6 tokens


def test_a_literal_unk_of_the_text_stays_what_it_is():
    assert detokenize(moses_tokenize(["Das <unk> im Text."], "de"), "de") == ["Das < unk > im Text."]


def test_a_hypothesis_that_ends_within_a_word_keeps_the_part(tmp_path):
    # fairseq-generate --post-process subword_nmt, and the hub
    from fairseq.data.data_utils import post_process

    assert post_process("Das Ha@@ us@@", "subword_nmt") == "Das Haus"


@pytest.mark.parametrize("tokens", ["Das Ha@@ us .", "Das Haus@@"])
def test_bpe_units_are_refused(tmp_path, tokens):
    message = run(generated(tmp_path, f"H-0\t-0.1\t{tokens}"), "Das Haus.\n", fails=True)
    assert "1 hypotheses have BPE markers" in message and "--post-process subword_nmt" in message


def test_split_hyphens_and_signs_are_no_bpe_markers(tmp_path):
    assert read_hypotheses(generated(tmp_path, "H-0\t-0.1\trot @-@ gelb @ home")) == ["rot @-@ gelb @ home"]


@pytest.mark.parametrize(
    ("lines", "reference", "problem"),
    [
        ([], "a\n", "incomplete: it has 0 hypotheses"),
        (["H-0\t-0.1\ta", "H-2\t-0.1\tb"], "a\nb\nc\n", "incomplete: it has 2 hypotheses"),
        (["H-0\t-0.1\ta", "H-1"], "a\nb\n", "line 2: not a hypothesis"),
        (["H-0\t-0.1\ta"], "a\nb\n", "has 1 hypotheses"),
        (["H-0\t-0.1\ta", "H-1\t-0.1\tb"], "a\n", "1 lines"),
    ],
)
def test_what_does_not_fit_together_is_refused_in_one_line(tmp_path, lines, reference, problem):
    assert problem in run(generated(tmp_path, *lines), reference, fails=True)


def test_a_reference_in_another_encoding_is_named(tmp_path):
    path = Path(tmp_path / "ref")
    path.write_bytes("Straße\n".encode("latin-1"))
    with pytest.raises(ScoreError, match=r"ref: not UTF-8 \(byte 4\): convert it with iconv"):
        read_lines(path)
