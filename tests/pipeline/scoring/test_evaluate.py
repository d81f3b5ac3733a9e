"""Evaluation of language models: the figures that follow from a loss."""

import json
from argparse import Namespace

import pytest
import torch

from pipeline.command import Failure
from pipeline.scoring.evaluate import Blocks, figures, read_blocks, read_loss
from pipeline.scoring.metrics import METRICS


def test_perplexity_and_bits_per_byte_follow_from_the_loss():
    scores = figures(3.001, 8.01, Blocks(4), 10, 0.25)
    assert scores == {"perplexity": 8.01, "loss": 3.001, "bits_per_byte": 0.75}, (
        "as printed: the rounded loss says less"
    )
    assert "bits_per_byte" not in figures(3.0, 8.0, Blocks(4), 10, 0)  # of a masked model
    assert {METRICS[key].arrow for key in scores} == {"↓"}


def test_the_begin_of_a_block_is_no_token_of_the_text():
    """10 tokens are 3 blocks of 4. fairseq counts 13 with <s>; the bits are the same."""
    assert figures(2.0, 4.0, Blocks(4, bos=True), 10, 1) == {
        "perplexity": round(2**2.6, 2),
        "loss": 2.6,
        "bits_per_byte": 2.6,
    }


def test_the_blocks_are_those_of_the_checkpoint(tmp_path):
    def blocks(cfg):
        torch.save({"cfg": cfg, "model": {}}, tmp_path / "checkpoint.pt")
        return read_blocks(tmp_path / "checkpoint.pt")

    assert blocks({"task": {"tokens_per_sample": 64}}) == (64, False)
    assert blocks({"task": Namespace(tokens_per_sample=64, add_bos_token=True)}) == (64, True)
    with pytest.raises(Failure, match="--tokens-per-sample"):
        blocks({"task": {"source_lang": "en"}})


def test_the_loss_is_that_of_the_set_without_smoothing(tmp_path):
    path = tmp_path / "test.gen.txt"

    def read(**values):
        path.write_text(f"loading | valid | {{}}\n2026-01-01 | INFO | test | {json.dumps(values)}\n")
        return read_loss(path, "test")

    assert read(epoch=1, test_loss="4.5", test_nll_loss="4.25", test_ppl="19.03") == (4.25, 19.03)
    assert read(test_loss="4.5", test_ppl="22.63") == (4.5, 22.63)
    for loss in ("nan", "2000"):
        with pytest.raises(Failure, match=f"{loss}: the training diverged"):
            read(test_loss=loss, test_ppl=loss if loss == "nan" else "inf")
