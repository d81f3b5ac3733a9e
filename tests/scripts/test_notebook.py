"""The notebook docs/first_steps.ipynb runs from its first cell to its last."""

import json
import re

import pytest

from ..commands import ENVIRONMENT, ROOT
from ..processes import preloaded

NOTEBOOK = json.loads((ROOT / "docs/first_steps.ipynb").read_text(encoding="utf-8"))
CODE = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_is_stored_without_outputs():
    cells = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    assert [cell for cell in cells if cell["outputs"] or cell["execution_count"]] == []


@pytest.mark.slow
def test_the_notebook_trains_translates_and_draws(tmp_path, monkeypatch, capsys):
    images = pytest.importorskip("PIL.Image")  # comes with matplotlib
    monkeypatch.chdir(tmp_path)
    for name, value in {**ENVIRONMENT, **preloaded()}.items():
        monkeypatch.setenv(name, value)
    program = "\n".join(CODE)
    whole = '"--max-update", 400, "--save-every", 25'
    assert program.count(whole) == 1
    exec(program.replace(whole, '"--max-update", 50, "--save-every", 10'), {})
    printed = capsys.readouterr().out
    assert len(set(re.findall(r"key at +(?:4|7|104): +(\S+)", printed))) == 1  # RoPE's product depends on the distance
    for name in ("decay.png", "bias.png", "scores.png"):
        assert min(images.open(tmp_path / "first_steps" / name).size) > 300
