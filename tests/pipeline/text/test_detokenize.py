"""Moses tokens to text: what the tokenisation of the training data did is undone."""

import pytest
from sacremoses import MosesTokenizer

from pipeline.scoring.metrics.bleu import moses_tokenize
from pipeline.text.detokenize import detokenize

ROUND_TRIP = {
    "de": [
        "Der rot-gelbe Hund fährt mit 210 km/h.",
        "Es gibt's bei O'Connor, und L'Oréal macht's auch so.",
        "Er sagt: \"Ja, wir sind's\", und McDonald's zahlt 1.000 £ Strafe.",
        "Müller & Söhne [siehe S. 3 | 4] steht für {oder < und > oder} 100%.",
        "Er rief: 'Hilf mir', z. B. am 3. Mai, für 1.234,56 Mark (3% mehr) 'so nicht'!",
        "Siehe http://beispiel.de/a-b oder und/oder... ja?",
    ],
    "cs": ["Na 'Facebooku' je klid.", "Je zde 12 česko-německých lidí od roku 1999.", "Stojí 5 korun, tedy 12."],
    "nl": ["Hij werkt 's avonds.", "'Nee' zei hij, in het rood-wit.", "De 'grote' man ziet een hond @ 7.30."],
    "es": ["El 'gran' hombre es franco-belga."],
    "en": [
        "Write to john.doe@mail.example.org by 10:30:15, in two half-hours from 9:05am on.",
        "Group 4: 50,000 people pay $3.12: 15 of them @ 2.50 each in south-east.",
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


@pytest.mark.parametrize("tokens", ["T @-@ shirt", "T @-@ @-@ shirt", "@-@ shirt .", "T @-@", "T @-@ @-@ @-@ x @-@ y"])
def test_every_sign_of_a_hyphen_joins(tokens):
    joined = tokens.replace(" @-@", "-").replace("@-@", "-").replace("- ", "-").replace(" .", ".")
    assert detokenize([tokens], "en") == [joined]


@pytest.mark.parametrize("lang", ROUND_TRIP)
def test_moses_tokens_survive_detokenisation(lang):
    # why the scores on Moses tokens do not depend on the detokeniser
    tokens = moses_tokenize(ROUND_TRIP[lang], lang)
    assert moses_tokenize(detokenize(tokens, lang), lang) == tokens


def test_a_literal_unk_of_the_text_stays_what_it_is():
    assert detokenize(moses_tokenize(["Das <unk> im Text."], "de"), "de") == ["Das < unk > im Text."]
