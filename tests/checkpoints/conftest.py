import pytest

from .hugging_face import KINDS, convert, folder


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def converted(kind, tmp_path):
    """The model folder of a converted one."""
    assert convert(folder(tmp_path / "theirs", kind), "--to", "plugin", "--out", tmp_path / "run") == 0
    return tmp_path / "run"
