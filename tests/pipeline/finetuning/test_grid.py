"""The grid of a fine-tuning: the learning rate that counts, the flags that are refused, what diverged."""

import pytest
import torch

from pipeline.command import Failure
from pipeline.finetuning.finetune import FIXED, FineTuning, best_cells, parse
from pipeline.finetuning.predict import _predict
from pipeline.settings import check_flags, flags_in


def test_the_learning_rate_with_the_best_median_counts():
    scores = {2e-5: (1, 9, 2), 3e-5: (5, 3, 4), 4e-5: (4, 4, 9)}
    cells = [
        {"learning_rate": lr, "seed": seed, "f1": x} for lr, column in scores.items() for seed, x in enumerate(column)
    ]
    best = best_cells(cells, "f1")  # the first of two equal ones
    assert [(cell["learning_rate"], cell["f1"]) for cell in best] == [(3e-5, 3), (3e-5, 4), (3e-5, 5)]


def test_flags_that_contradict_the_schedule_are_refused():
    for flag in ("--lr", "--max-epoch", "--update-freq", "--init-token", "--max-tokens", "--ranking-head-name"):
        with pytest.raises(Failure, match=flag):
            check_flags({flag: ["1"]}, FIXED)
    check_flags(flags_in(["--clip-norm", "0", "--lr-scheduler", "fixed", "--dropout", "0.2"]), FIXED)


@pytest.mark.parametrize(
    "entry", ["lr = 1e-5", "warmup-updates = 9", "update-freq = 2", "patience = 1", "stop-min-lr = 1"]
)
def test_entries_of_a_recipe_that_would_count_for_nothing_or_contradict_the_schedule_are_refused(tmp_path, entry):
    (tmp_path / "own.toml").write_text(f"extends = 'glue'\n[train]\nbatch-size = 16\n{entry}\n")
    args = parse(["RTE", *f"--run {tmp_path} --data {tmp_path} --recipe {tmp_path}/own.toml".split()])
    with pytest.raises(Failure, match=f"--{entry.split()[0]} does not go"):
        FineTuning(tmp_path, "RTE", args)


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_a_training_that_diverged_has_no_predictions(broken):
    with pytest.raises(Failure, match="--learning-rates"):
        _predict(lambda **_: (torch.tensor([[broken, 1.0]]),), {"net_input": {}}, None)
