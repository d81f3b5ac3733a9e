"""The statistics of sentences: their scores and their buckets are sacrebleu's."""

import random

from sacrebleu.metrics import BLEU

from pipeline.scoring.statistics import BUCKETS, bleu, by_length, columns, resampled_bleu, rows

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
    for i, rate in enumerate((0.2, 0.4))
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
