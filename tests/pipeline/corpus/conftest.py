import pytest

from .archives import lines_of, write_mirror


@pytest.fixture
def mirror(tmp_path):
    return write_mirror(tmp_path / "mirror", lines_of)
