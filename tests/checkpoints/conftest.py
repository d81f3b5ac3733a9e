import pytest

from .hugging_face import KINDS, convert, folder


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def converted(kind, tmp_path):
    """The model folder of a converted one, which calls its weights half precision."""
    theirs = folder(tmp_path / "theirs", kind, dtype="float16", torch_dtype="float16")
    assert convert(theirs, "--to", "plugin", "--out", tmp_path / "run") == 0
    return tmp_path / "run"
