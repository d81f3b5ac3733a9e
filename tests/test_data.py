"""The demo corpus: it is its generator's output, its sets are disjoint, and its translations keep the grammar."""

import importlib
from pathlib import Path

import pytest

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture(scope="module")
def generator():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DATA)  # as Python has it that runs data/generate.py
        yield importlib.import_module("generate")


@pytest.fixture(scope="module")
def corpus(generator):
    return generator.generate()


def test_the_committed_files_are_the_generators_output(corpus):
    for name, pairs in corpus.items():
        for column, lang in enumerate(("en", "de")):
            text = (DATA / "demo" / f"{name}.{lang}").read_text(encoding="utf-8")
            assert text == "".join(pair[column] + "\n" for pair in pairs), f"run data/generate.py: {name}.{lang}"


def test_no_sentence_is_in_two_sets_or_twice(corpus):
    sources = [pair[0] for pairs in corpus.values() for pair in pairs]
    assert len(sources) == len(set(sources))


def test_lengths(corpus):
    lengths = {name: [len(en.split()) for en, _ in pairs] for name, pairs in corpus.items()}
    assert min(min(values) for values in lengths.values()) >= 3
    assert max(max(values) for values in lengths.values()) <= 40
    assert min(lengths["test_long"]) > max(lengths["train"])


@pytest.mark.parametrize(
    "en,de",
    [
        ("my dogs", "meine Hunde / meine Hunde / meinen Hunden"),
        ("an old king", "ein alter König / einen alten König / einem alten König"),
    ],
)
def test_agreement(generator, en, de):
    grammar = generator.Grammar(None)
    words = {"my dogs": ("my", None, "p", "dog"), "an old king": ("a", "alt", "m", "king")}[en]
    determiner, adjective, kind, name = words
    noun = next(n for n in generator.lexicon.BEINGS if n.en == name)
    column = generator.lexicon.COLUMNS.index(kind)
    phrases = []
    for case in ("nom", "acc", "dat"):
        phrase = [generator.lexicon.ARTICLE[determiner][case].split()[column]]
        if adjective:
            phrase.append(grammar._inflected(adjective, determiner, False, case, column))
        phrases.append(" ".join([*phrase, grammar._declined(noun, None, kind == "p", case)]))
    assert " / ".join(phrases) == de


def test_numbers_put_the_ones_first(generator):
    assert generator.lexicon.number(34) == ("thirty-four", "vierunddreißig")
    assert generator.lexicon.number(20) == ("twenty", "zwanzig")
    assert generator.lexicon.number(7) == ("seven", "sieben")
