"""The notebook docs/first_steps.ipynb runs from its first cell to its last."""

import json
import re

import pytest

from ..commands import ENVIRONMENT, ROOT
from ..processes import preloaded

NOTEBOOK = json.loads((ROOT / "docs/first_steps.ipynb").read_text(encoding="utf-8"))
CODE = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def test_the_notebook_is_stored_without_outputs():
    assert [cell for cell in CODE if cell["outputs"] or cell["execution_count"]] == []


@pytest.mark.slow
@pytest.mark.long
def test_the_notebook_trains_translates_and_draws(corpus, tmp_path, monkeypatch, capsys):
    """Two of its models, for a few updates on a small corpus."""
    images = pytest.importorskip("PIL.Image")  # comes with matplotlib
    monkeypatch.chdir(tmp_path)
    for name, value in {**ENVIRONMENT, **preloaded()}.items():
        monkeypatch.setenv(name, value)
    names = {}
    for cell in CODE:
        exec("".join(cell["source"]), names)
        if "fast" in names and "--data" not in names["fast"]:
            names["fast"][:4] = ["--data", corpus, "--max-update", 5, "--save-every", 1]
            names["NAMES"] = {name: names["NAMES"][name] for name in ("transformer_sinusoidal_tiny", "roformer_tiny")}
    printed = capsys.readouterr().out
    assert len(set(re.findall(r"key at +(?:4|7|104): +(\S+)", printed))) == 1  # RoPE's product depends on the distance
    for name in ("decay.png", "bias.png", "scores.png"):
        assert min(images.open(tmp_path / "first_steps" / name).size) > 300
