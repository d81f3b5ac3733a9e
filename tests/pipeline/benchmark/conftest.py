import pytest

from pipeline.benchmark import machine


@pytest.fixture(autouse=True)
def short_peak(monkeypatch):
    monkeypatch.setattr(machine, "SECONDS", 0.01)
