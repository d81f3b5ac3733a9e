import pytest

from fairseq_rope import products
from fairseq_rope.decoding import generator


@pytest.fixture
def fast_searches(monkeypatch):
    """How many searches the fast way has begun."""
    begun, begin = [], generator.Beams
    monkeypatch.setattr(generator, "Beams", lambda *args: begun.append(1) or begin(*args))
    return begun


@pytest.fixture(autouse=True)
def small_weights_are_packed(monkeypatch):
    """As those of real models are."""
    monkeypatch.setattr(products, "PACKED", 0)
