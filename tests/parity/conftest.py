import pytest

from fairseq_rope.__main__ import main


@pytest.fixture(scope="module")
def ours(theirs):
    """The model folder that a folder of the library becomes, the first of what ``theirs`` of a module has."""
    folder = theirs[0].parent / "run"
    assert main(["convert", str(theirs[0]), "--to", "plugin", "--out", str(folder)]) == 0
    return folder
