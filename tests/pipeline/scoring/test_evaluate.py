"""Evaluation of language models: the figures that follow from a loss."""

import json
from argparse import Namespace

import pytest
import torch

from pipeline.command import Failure
from pipeline.scoring.blocks import Blocks, read_blocks
from pipeline.scoring.evaluate import Measured, figures, read_measured
from pipeline.scoring.metrics import METRICS
from pipeline.scoring.table import table


def test_perplexity_and_bits_per_byte_follow_from_the_loss():
    scores = {key: entry["score"] for key, entry in figures(Measured(3.0, 8.0), 0.25, "").items()}
    assert scores == {"perplexity": 8.0, "loss": 3.0, "bits_per_byte": 0.75}
    assert "bits_per_byte" not in figures(Measured(3.0, 8.0), 0, "")  # of a masked model
    assert not any(METRICS[key].higher_is_better for key in scores)


def test_the_begin_of_a_block_is_no_token_of_the_text():
    """10 tokens are 3 blocks of 4. fairseq counts 13 with <s>; the bits are the same."""
    assert Blocks(4).counted(10) == 10 and Blocks(4, bos=True).counted(10) == 13
    assert Measured(2.0, 4.0).over(13 / 10) == Measured(2.6, round(2**2.6, 2))
    assert Measured(3.001, 8.01).over(1) == Measured(3.001, 8.01), "as printed: the rounded loss says less"


def test_the_blocks_are_those_of_the_checkpoint(tmp_path):
    def blocks(cfg):
        torch.save({"cfg": cfg, "model": {}}, tmp_path / "checkpoint.pt")
        return read_blocks(tmp_path / "checkpoint.pt")

    assert blocks({"task": {"tokens_per_sample": 64}}) == (64, False)
    assert blocks({"task": Namespace(tokens_per_sample=64, add_bos_token=True)}) == (64, True)
    for cfg in ([1], None, {"task": [1]}, *({"task": {"tokens_per_sample": odd}} for odd in (True, 0, 64.0, "64"))):
        with pytest.raises(Failure, match=r"has no (configuration|--tokens-per-sample)"):
            blocks(cfg)
    with pytest.raises(Failure, match="predicts a part of the dictionary: train without --output-dictionary-size"):
        blocks({"task": {"tokens_per_sample": 64, "output_dictionary_size": 0}})
    assert blocks({"task": {"tokens_per_sample": 64, "output_dictionary_size": -1}}) == (64, False)


def line(**values):
    return f"2026-01-01 | INFO | test | {json.dumps(values)}\n"


def test_the_loss_is_that_of_the_set_without_smoothing(tmp_path):
    path = tmp_path / "test.gen.txt"
    both = line(epoch=1, test_loss="4.5", test_nll_loss="4.25", test_ppl="19.03")
    path.write_text(f"loading | valid | {{}}\n{both}")
    assert read_measured(path, "test") == (4.25, 19.03)
    path.write_text(line(test_loss="4.5", test_ppl="22.63"))
    assert read_measured(path, "test") == (4.5, 22.63)
    for text in ("", line(test_ppl="2"), line(test_loss="3"), line(valid_loss="3").replace("test", "valid")):
        path.write_text(text)
        with pytest.raises(Failure, match="has no loss of 'test'"):
            read_measured(path, "test")

    for loss in ("nan", "inf", "2000"):
        path.write_text(line(test_loss=loss, test_ppl="inf"))
        with pytest.raises(Failure, match=f"on 'test' the loss is {loss} bits per token and .*: the training diverged"):
            read_measured(path, "test")


def test_the_table_has_the_figures_that_there_are():
    lines = table([{"name": "run", "subset": "test", "scores": figures(Measured(3.142, 8.82), 0.5, "")}]).splitlines()
    assert lines[0].split() == ["test", "set", "perplexity", "bits/byte", "loss"]
    assert lines[2].split() == ["test", "8.82", "1.571", "3.142"]
    assert [line.split(":")[0] for line in lines if ": " in line] == ["perplexity", "bits/byte", "loss"]
