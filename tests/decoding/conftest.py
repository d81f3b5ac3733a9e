import pytest

from fairseq_rope import products
from fairseq_rope.decoding import generator


@pytest.fixture
def fast_searches(monkeypatch):
    """How many searches the fast way has begun."""
    begun = []

    class Counted(generator.Beams):
        def __init__(self, *args):
            begun.append(1)
            super().__init__(*args)

    monkeypatch.setattr(generator, "Beams", Counted)
    return begun


@pytest.fixture(autouse=True)
def small_weights_are_packed(monkeypatch):
    """As those of real models are."""
    monkeypatch.setattr(products, "PACKED", 0)
