"""The demo end to end: what a new user sees, and the control that shows what its score means."""

import json

import pytest
import sacrebleu

from ..commands import ROOT, run


@pytest.mark.slow
def test_roformer_learns_the_demo_and_a_model_without_positions_does_not(tmp_path):
    """Half the demo's updates, which tell them apart as well; about 5 minutes on one core."""
    systems = ["--archs", "roformer_tiny transformer_none_tiny", "--max-update", 500]
    run("scripts/reproduce.sh", "demo", *systems, "--out", tmp_path)

    def bleu(arch, subset):
        result = json.loads((tmp_path / arch / "seed1/scores" / f"{subset}.json").read_text())
        return result["scores"]["sacrebleu"]["score"]

    assert bleu("roformer_tiny", "test") >= 60
    assert bleu("transformer_none_tiny", "test") < bleu("roformer_tiny", "test") - 30
    assert bleu("transformer_none_tiny", "test1") < bleu("roformer_tiny", "test1")
    text = (ROOT / "data/demo/test.en").read_text(encoding="utf-8")
    reference = (ROOT / "data/demo/test.de").read_text(encoding="utf-8").splitlines()
    folder = tmp_path / "roformer_tiny/seed1"
    ours, theirs, small = (
        run("scripts/translate.sh", folder, *options, input=text).stdout.splitlines()
        for options in ([], ["--engine", "ctranslate2"], ["--engine", "ctranslate2", "--quantization", "int8"])
    )
    # neither the ends of the two beam searches nor int8 change more than a few sentences
    score = sacrebleu.corpus_bleu(ours, [reference]).score
    for found in (theirs, small):
        assert abs(sacrebleu.corpus_bleu(found, [reference]).score - score) < 0.5
    table = (tmp_path / "table.txt").read_text()
    assert "roformer_tiny seed 1 test " in table
