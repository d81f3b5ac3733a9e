"""The demo corpus: it is its generator's output, and its sets are disjoint."""

import importlib
from pathlib import Path

import pytest

DATA = Path(__file__).parent.parent / "data"


@pytest.fixture(scope="module")
def corpus():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DATA)  # as Python has it that runs data/generate.py
        return importlib.import_module("generate").generate()


def test_the_committed_files_are_the_generators_output(corpus):
    for name, pairs in corpus.items():
        for column, lang in enumerate(("en", "de")):
            text = (DATA / "demo" / f"{name}.{lang}").read_text(encoding="utf-8")
            assert text == "".join(pair[column] + "\n" for pair in pairs), f"run data/generate.py: {name}.{lang}"


def test_no_sentence_is_in_two_sets_or_twice(corpus):
    sources = [pair[0] for pairs in corpus.values() for pair in pairs]
    assert len(sources) == len(set(sources))
