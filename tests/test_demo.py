"""The demo end to end: what a new user sees, and the control that shows what its score means."""

import json

import pytest

from .commands import run


@pytest.mark.slow
def test_roformer_learns_the_demo_and_a_model_without_positions_does_not(tmp_path):
    """About 4 minutes on two cores."""
    run("scripts/reproduce.sh", "demo", "--archs", "roformer_tiny transformer_none_tiny", "--out", tmp_path)

    def bleu(arch, subset):
        result = json.loads((tmp_path / arch / "seed1/scores" / f"{subset}.json").read_text())
        return result["scores"]["sacrebleu"]["score"]

    assert bleu("roformer_tiny", "test") >= 90
    assert bleu("transformer_none_tiny", "test") < bleu("roformer_tiny", "test") - 20
    assert bleu("transformer_none_tiny", "test1") < bleu("roformer_tiny", "test1")
    table = (tmp_path / "table.txt").read_text()
    assert "roformer_tiny seed 1 test " in table
