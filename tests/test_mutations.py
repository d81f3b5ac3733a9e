"""The list of mutations is about the code as it is. ``python -m tests.mutations`` runs them."""

import pytest

from .commands import ROOT
from .mutations import read

MUTATIONS = read(ROOT / "tests/mutations.toml")


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_finds_its_code_and_its_tests(mutation):
    assert (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.old) == 1
    for test in mutation.tests:
        file, _, function = test.partition("::")
        assert f"def {function}" in (ROOT / file).read_text(encoding="utf-8") if function else (ROOT / file).exists()
