"""The grid of a fine-tuning: the learning rate that counts, the flags that are refused, what diverged."""

from types import SimpleNamespace

import pytest
import torch

from pipeline.command import Failure
from pipeline.files import write_json
from pipeline.finetuning.finetune import FIXED, FineTuning, best_cells, parse
from pipeline.finetuning.predict import _predict
from pipeline.finetuning.tasks import TASKS
from pipeline.settings import check_flags, flags_in

from ..training.logs import KILLED, RESUMED


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


def test_flags_of_the_recipe_win_over_those_of_the_pretraining():
    model = SimpleNamespace(arch="a", longest=64, model_flags={"--dropout": ["0"], "--encoder-layers": ["1"]})
    recipe = SimpleNamespace(flags={"--dropout": ["0.3"], "--clip-norm": ["1"]})
    more = dict(task=TASKS["RTE"], sets={"train": [None] * 40}, batch=32, epochs=2, given={"--clip-norm": ["0"]})
    flags = FineTuning._flags(SimpleNamespace(pretrained=model, recipe=recipe, **more), 1e-3, 1)
    assert (flags["--dropout"], flags["--clip-norm"], flags["--encoder-layers"]) == (["0.3"], ["0"], ["1"])
    assert (flags["--total-num-update"], flags["--lr"], flags["--seed"]) == (["4"], ["0.001"], ["1"])


@pytest.mark.parametrize("start", ["mlm_books/roformer_mlm_small, SHA-256 0", ""])
def test_a_result_names_the_training_with_which_the_pretraining_began(tmp_path, start):
    """Else the report would not average its seeds, each of which began with a file of its own."""
    pytest.importorskip("sklearn")
    (tmp_path / "predictions.txt").write_text("0\n1\n")
    (tmp_path / "train.log").write_text("\n".join([*KILLED, *RESUMED]) + "\n")
    write_json(tmp_path / "run.json", {"arch": "a", "seed": "1", "command": "x"})
    named = dict(recipe=SimpleNamespace(name="glue"), system=SimpleNamespace(variant=""), seed=2, settings="", sets={})
    known = dict(task=TASKS["CoLA"], labels=["0", "1"], chance={}, data=tmp_path, grid={(1e-3, 1): tmp_path}, model={})
    made = FineTuning._collected(SimpleNamespace(pretrained=SimpleNamespace(start=start), **named, **known))
    assert made["run"].get("from", "") == start and made["tests"]["CoLA"]["scores"]["matthews"]["score"] == 100


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_a_training_that_diverged_has_no_predictions(broken):
    with pytest.raises(Failure, match="--learning-rates"):
        _predict(lambda **_: (torch.tensor([[broken, 1.0]]),), {"net_input": {}}, None)
