import os

import pytest

from .fake import SENTENCES, TOKENS, WORSE, FakeRun, printed


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A run that translates worse with a beam of 4 than with one of 2."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return FakeRun(tmp_path, SENTENCES, {4: printed(WORSE, TOKENS), 2: printed(TOKENS, TOKENS)})
