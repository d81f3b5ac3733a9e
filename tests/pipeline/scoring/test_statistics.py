"""The statistics of sentences: their scores, their buckets and their p-values are sacrebleu's."""

import json
import random
import sys

import pytest
from sacrebleu.metrics import BLEU

from pipeline.scoring.statistics import BUCKETS, bleu, by_length, columns, hierarchical_bootstrap, resampled_bleu, rows

from ...commands import run

WORDS = "der die das Hund Haus rote geht sieht , und - nicht 3.5 % Straße (heute) zu-Fuß".split()


def text(count, seed=1, spoil=0.0, like=None):
    """Sentences of 1 to 129 words, or those given with words exchanged at a rate of ``spoil``."""
    chance = random.Random(seed)
    like = like or [[chance.choice(WORDS) for _ in range(chance.randrange(1, 130))] for _ in range(count)]
    lines = [[chance.choice(WORDS) if chance.random() < spoil else word for word in words] for words in map(list, like)]
    return [" ".join(words) for words in lines]


REFERENCES = text(120)
HYPOTHESES = {
    rate: text(120, seed=7 + i, spoil=rate, like=[line.split() for line in REFERENCES])
    for i, rate in enumerate((0.2, 0.21, 0.4))
}


def statistics(rate):
    return columns(REFERENCES, HYPOTHESES[rate], REFERENCES)


def test_the_stored_statistics_have_sacrebleus_score():
    expected = BLEU().corpus_score(HYPOTHESES[0.2], [REFERENCES])
    assert bleu(rows(statistics(0.2))) == expected.score
    assert sum(statistics(0.2)["hyp_len"]) == expected.sys_len


def test_bleu_by_length_is_that_of_these_sentences():
    """An empty source is among the shortest."""
    sources = ["", *REFERENCES[1:]]
    stored = by_length(columns(sources, HYPOTHESES[0.4], REFERENCES))
    for (first, last), (words, score) in zip(BUCKETS, stored):
        chosen = [i for i, line in enumerate(sources) if first <= (len(line.split()) or 1) <= (last or 10**9)]
        hypotheses, references = ([lines[i] for i in chosen] for lines in (HYPOTHESES[0.4], REFERENCES))
        assert words == [len(sources[i].split()) for i in chosen] != []
        assert score == BLEU().corpus_score(hypotheses, [references]).score
    assert sum(len(words) for words, _ in stored) == len(REFERENCES)


def test_a_sample_has_the_same_sentences_of_every_system():
    """Those that lack the one sentence in which two systems differ, a share of 1/e, have the same score."""
    one = rows(statistics(0.4))
    other = [rows(statistics(0.2))[0], *one[1:]]
    assert one != other and 0.3 < (resampled_bleu(one) == resampled_bleu(other)).mean() < 0.45


def test_p_values_are_about_twice_those_of_sacrebleus_command_which_counts_one_side(tmp_path):
    files = []
    for name, lines in [("ref", REFERENCES), *((str(rate), lines) for rate, lines in HYPOTHESES.items())]:
        files.append(tmp_path / name)
        files[-1].write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", files[0], "-i", *files[1:], "--paired-bs", "-m", "bleu", "-f", "json"]
    printed = json.loads(run(*command).stdout)
    theirs, ours, one_sided = [system["BLEU"]["p_value"] for system in printed[1:]], [], []
    for rate in (0.21, 0.4):
        outputs = [rows(statistics(each)) for each in (0.2, rate)]
        (one, other), difference = map(resampled_bleu, outputs), bleu(outputs[0]) - bleu(outputs[1])
        ours.append(hierarchical_bootstrap([one], [other], difference)[0])
        exceeding = abs(one - other) - abs(one - other).mean()  # by the difference: what sacrebleu counts
        one_sided.append((exceeding > abs(difference)).mean())
    near, far = ours
    assert theirs == pytest.approx(one_sided, abs=0.04)
    assert near > 2 * theirs[0] > 0.2 and far == theirs[1] == 1 / 1001
