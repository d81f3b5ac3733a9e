"""The BLEU figures: each is what its name says, in sacrebleu's arithmetic."""

import pytest
from sacrebleu.metrics import BLEU

from fairseq_rope.tools.score import ScoreError, detokenize, fairseq_score, read_hypotheses, score, split_compounds

REFERENCES = ["Der rot-gelbe Hund läuft über die Straße.", 'Er sagt: "Ja", und geht nach New York-Stadt.']
HYPOTHESES = ["Der rot-gelbe Hund läuft auf der Straße.", 'Er sagt: "Nein", und geht nach New York-Land.']


def test_compounds_are_split_as_in_the_published_scripts():
    assert split_compounds(["a-b - c-d-e -f"]) == ["a ##AT##-##AT## b - c ##AT##-##AT## d-e -f"]


def test_a_perfect_translation_scores_100_everywhere():
    assert {entry["score"] for entry in score(REFERENCES, REFERENCES, "de").values()} == {100.0}


def test_each_score_is_sacrebleus_on_the_named_tokens():
    scores = score(HYPOTHESES, REFERENCES, "de")
    expected = BLEU().corpus_score(HYPOTHESES, [REFERENCES]).score
    assert scores["sacrebleu"]["score"] == pytest.approx(expected, abs=0.005)
    assert "tok:13a" in scores["sacrebleu"]["signature"]

    def moses(lines):
        return [
            line.replace(".", " .")
            .replace(": ", " : ")
            .replace('"Ja",', "&quot; Ja &quot; ,")
            .replace('"Nein",', "&quot; Nein &quot; ,")
            for line in lines
        ]

    for key, change in (("bleu_moses", lambda x: x), ("bleu_moses_compound_split", split_compounds)):
        hypotheses, references = change(moses(HYPOTHESES)), change(moses(REFERENCES))
        expected = BLEU(tokenize="none", force=True).corpus_score(hypotheses, [references]).score
        assert scores[key]["score"] == pytest.approx(expected, abs=0.005), key
        assert "tok:none" in scores[key]["signature"]
    # splitting adds tokens that match: the reason why 27.3 and sacreBLEU must not be compared
    assert scores["bleu_moses_compound_split"]["score"] > scores["bleu_moses"]["score"]


def test_detokenisation_undoes_escaping_and_hyphen_splits():
    assert detokenize(["Er sagt : &quot; rot @-@ gelb &quot; &amp; geht ."], "de") == ['Er sagt: "rot-gelb" & geht.']


def test_hypotheses_come_back_in_the_order_of_the_test_set(tmp_path):
    path = tmp_path / "gen.txt"
    path.write_text("S-1\tx\nH-1\t-0.5\tzwei\nD-1\t-0.5\tzwei\nH-0\t-0.1\teins\nBLEU4 = 12.34, 50.0/20.0\n")
    assert read_hypotheses(path) == ["eins", "zwei"]
    assert fairseq_score(path)["score"] == 12.34


@pytest.mark.parametrize("text", ["", "H-0\t-0.1\ta\nH-2\t-0.1\tb\n"])
def test_missing_hypotheses_are_refused(tmp_path, text):
    path = tmp_path / "gen.txt"
    path.write_text(text)
    with pytest.raises(ScoreError, match="incomplete"):
        read_hypotheses(path)
