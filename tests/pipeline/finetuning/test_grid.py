"""The grid of a fine-tuning: its cells, the learning rate that counts, what a result replaces, what diverged."""

from types import SimpleNamespace

import pytest
import torch

from pipeline.command import Failure
from pipeline.finetuning.finetune import FIXED, parse
from pipeline.finetuning.grid import Trained, best_rate, replaces
from pipeline.finetuning.predict import _predict
from pipeline.settings import check_flags, flags_in


def test_the_learning_rate_with_the_best_median_counts(tmp_path):
    scores = {2e-5: (1, 9, 2), 3e-5: (5, 3, 4), 4e-5: (4, 4, 9)}
    done = [
        Trained(tmp_path, rate, seed, {"f1": x}) for rate, column in scores.items() for seed, x in enumerate(column)
    ]
    best = best_rate(done, "f1")  # the first of two equal ones
    assert [(each.learning_rate, each.scores["f1"]) for each in best] == [(3e-5, 3), (3e-5, 4), (3e-5, 5)]


def test_several_tasks_and_runs_are_every_pair_once():
    words = ["GLUE", "CoLA", "--run", "a", "b", "a", "--data", "c"]
    cells = [(str(args.run), args.task) for args in parse([*words, "--run", "d"])]
    assert cells == [(run, name) for run in "abd" for name in ("CoLA", "MRPC", "RTE", "SST-2", "STS-B")]
    with pytest.raises(SystemExit):
        parse([*words, "--out", "d"])
    (args,) = parse(["SCM", "--run", "a", "--data", "c", "--out", "d", "--", "--fp16"])
    assert (args.task, args.flags) == ("SCM", ["--fp16"])


def test_flags_that_contradict_the_schedule_are_refused():
    for flag in ("--lr", "--max-epoch", "--update-freq", "--init-token", "--max-tok", "--ranking-head-name"):
        with pytest.raises(Failure, match=flag):
            check_flags({flag: ["1"]}, FIXED)
    check_flags(flags_in(["--clip-norm", "0", "--lr-scheduler", "fixed", "--dropout", "0.2"]), FIXED)


def test_a_result_replaces_one_of_the_same_settings_whose_trainings_it_has():
    def result(*cells, settings="epochs 10", model="a"):
        grid = [{"learning_rate": lr, "seed": seed} for lr, seed in cells]
        return {"settings": settings, "grid": grid, "pretrained": {"checkpoint": model} if model else {}}

    old = result((2e-5, 1), (3e-5, 1))
    for new, does in (
        (old, True),
        (result((3e-5, 1), (2e-5, 1), (2e-5, 2)), True),
        (result((2e-5, 1)), False),
        (result((2e-5, 1), (3e-5, 1), settings="epochs 1"), False),
        (result((2e-5, 1), (3e-5, 1), model="b"), False),
    ):
        assert replaces(new, SimpleNamespace(**old)) == does
    assert replaces(old, SimpleNamespace(**{**old, "pretrained": {}}))  # an older file does not name the model


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_a_training_that_diverged_has_no_predictions(broken):
    with pytest.raises(Failure, match="--learning-rates"):
        _predict(lambda **_: (torch.tensor([[broken, 1.0]]),), {"net_input": {}}, None)
