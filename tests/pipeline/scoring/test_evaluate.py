"""Evaluation of language models: the figures that follow from a loss."""

import json

import pytest

from pipeline.command import Failure
from pipeline.scoring.evaluate import figures, read_loss
from pipeline.scoring.kinds import METRICS
from pipeline.scoring.metrics import table


def test_perplexity_and_bits_per_byte_follow_from_the_loss():
    scores = {key: entry["score"] for key, entry in figures(3.0, 0.25).items()}
    assert scores == {"perplexity": 8.0, "loss": 3.0, "bits_per_byte": 0.75}
    assert "bits_per_byte" not in figures(3.0, 0)  # of a masked model
    assert not any(METRICS[key].higher_is_better for key in scores)


def line(**values):
    return f"2026-01-01 | INFO | test | {json.dumps(values)}\n"


def test_the_loss_is_that_of_the_set_without_smoothing(tmp_path):
    path = tmp_path / "test.gen.txt"
    path.write_text(f"loading | valid | {{}}\n{line(epoch=1, test_loss='4.5', test_nll_loss='4.25')}")
    assert read_loss(path, "test") == 4.25
    path.write_text(line(test_loss="4.5"))
    assert read_loss(path, "test") == 4.5
    for text in ("", line(test_ppl="2"), line(valid_loss="3").replace("test", "valid")):
        path.write_text(text)
        with pytest.raises(Failure, match="has no loss of 'test'"):
            read_loss(path, "test")

    for loss in ("nan", "inf", "2000"):
        path.write_text(line(test_loss=loss))
        with pytest.raises(Failure, match=f"the loss on 'test' is {loss} bits per token: the training diverged"):
            read_loss(path, "test")


def test_the_table_has_the_figures_that_there_are():
    lines = table([{"name": "run", "subset": "test", "scores": figures(3.14159, 0.5)}]).splitlines()
    assert lines[0].split() == ["test", "set", "perplexity", "bits/byte", "loss"]
    assert lines[2].split() == ["test", "8.82", "1.571", "3.142"]
    assert [line.split(":")[0] for line in lines if ": " in line] == ["perplexity", "bits/byte", "loss"]
