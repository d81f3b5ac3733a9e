"""Fine-tunings: their options, the learning rate that counts, what a result replaces."""

import pytest
import torch

from pipeline.command import Failure
from pipeline.finetuning.finetune import FineTuning, set_by
from pipeline.finetuning.model import _predict
from pipeline.finetuning.options import TASKS, parse
from pipeline.finetuning.result import Trained, best_rate, replaces
from pipeline.settings import check_flags


def test_the_learning_rate_with_the_best_median_counts(tmp_path):
    scores = {2e-5: (1, 9, 2), 3e-5: (4, 3, 5), 4e-5: (4, 4, 9)}
    done = [
        Trained(tmp_path, rate, seed, {"f1": score})
        for rate, column in scores.items()
        for seed, score in enumerate(column)
    ]
    assert {trained.learning_rate for trained in best_rate(done, "f1")} == {3e-5}  # the first of two equal ones


def test_several_tasks_and_runs_are_every_pair_once():
    words = ["--", "GLUE", "CoLA", "--run", "a", "b", "a", "--data", "c"]
    cells = [(str(args.run), args.task) for args in parse(words, "")]
    names = [name for name in TASKS if name != "SCM"]
    assert cells == [(run, name) for run in "ab" for name in names]
    with pytest.raises(SystemExit):
        parse([*words, "--out", "d"], "")
    assert len(parse([*words, "--run", "further"], "")) == len(cells) + len({task for _, task in cells})
    (args,) = parse(["fairseq-train", "--", "SCM", "--run", "a", "--data", "c", "--out", "d", "--", "--fp16"], "")
    assert (args.task, args.template, args.flags) == ("SCM", ["fairseq-train"], ["--fp16"])


def test_flags_that_contradict_the_schedule_are_refused():
    template = [
        "fairseq-train",
        "{data}",
        "--lr",
        "{lr}",
        "--clip-norm",
        "1.0",
        "{regression}",
        "--max-epoch",
        "{epochs}",
    ]
    for flag in ("--lr", "--lr=1", "--max-epoch", "--update-freq", "--init-token", "--max-tok", "--ranking-head-name"):
        with pytest.raises(Failure, match=f"{flag} does not go among the flags of fairseq-train"):
            check_flags([flag, "1"], set_by(template))
    check_flags(["--clip-norm", "0", "--lr-scheduler", "fixed", "--dropout", "0.2"], set_by(template))


@pytest.mark.parametrize("folders", [("ru:n", "out"), ("run", "${out}")])
def test_a_name_that_fairseq_would_split_or_replace_is_refused_before_all_work(tmp_path, folders):
    run, out = (str(tmp_path / name) for name in folders)
    (args,) = parse(["x", "--", "RTE", "--run", run, "--data", str(tmp_path), "--out", out], None)
    with pytest.raises(Failure, match=r"fairseq does not take '.*' for a part of the name: rename the folder"):
        FineTuning(args)


@pytest.mark.parametrize("variant", ["../x", "a/b", "a\nb", "a" * 101])
def test_a_variant_that_cannot_name_a_file_is_refused(variant, capsys):
    with pytest.raises(SystemExit, match="2"):
        parse(["x", "--", "RTE", "--run", "r", "--data", "d", "--variant", variant], None)
    assert "--variant is a name of letters, digits, _ and ., not '" in capsys.readouterr().err.splitlines()[-1]


def test_a_result_replaces_one_of_the_same_settings_whose_trainings_it_has():
    def result(*cells, settings="epochs 10"):
        return {"settings": settings, "grid": [{"learning_rate": lr, "seed": seed} for lr, seed in cells]}

    old = result((2e-5, 1), (3e-5, 1))
    assert replaces(old, old) and replaces(result((3e-5, 1), (2e-5, 1), (2e-5, 2)), old)
    assert not replaces(result((2e-5, 1)), old)
    assert not replaces(result((2e-5, 1), (3e-5, 1), settings="epochs 1"), old)
    model, other = ({"pretrained": {"checkpoint": letter * 64, "updates": 9}} for letter in "ab")
    assert replaces({**old, **model}, old) and replaces({**old, **model}, {**old, **model})
    assert not replaces({**old, **model}, {**old, **other})


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_a_training_that_diverged_has_no_predictions(broken):
    def diverged(**_):
        return (torch.tensor([[broken, 1.0]]),)

    with pytest.raises(Failure, match="not finite: give lower --learning-rates"):
        _predict(diverged, {"net_input": {}}, None)
