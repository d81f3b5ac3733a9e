"""Which results are one system: seeds alone are averaged."""

import pytest

from pipeline.files import read_json, write_json
from pipeline.report.recipe import read_report
from pipeline.report.systems import differing_settings

from .made_results import LEARNED, ROTARY, SINUSOIDAL, exact_bleu, model, named, recipe, result, scored, tuned


def altered(path, change):
    made = read_json(path)
    change(made)
    write_json(path, made)


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made["training"].update(averaged=1),
        lambda made: made["tests"]["test"].update(settings="beam 1"),
        lambda made: made["run"].update(batch="--bf16"),
        lambda made: made["run"].update(flags=made["run"]["flags"] + " --dropout 0.5"),
        lambda made: made.update(settings="data 0a\ntrain x --seed 2\n"),
    ],
)
def test_seeds_of_another_average_search_precision_flags_or_data_are_another_system(tmp_path, change):
    for seed in (1, 2):
        path = result(tmp_path, ROTARY, seed, test=0.1)
    altered(path, change)
    assert sorted(named(recipe(tmp_path))) == [f"{ROTARY} (settings 1)", f"{ROTARY} (settings 2)"]


def test_systems_that_differ_in_more_than_their_architecture_are_told(tmp_path):
    flags = {arch: {"flags": f"--arch {arch} --lr 0.1"} for arch in (ROTARY, LEARNED)}
    paths = [result(tmp_path, arch, 1, run=flags[arch], test=0.1) for arch in flags]
    assert not differing_settings(recipe(tmp_path).systems)
    altered(paths[0], lambda made: made["run"].update(flags=f"--arch {ROTARY} --lr 0.2", batch="--bf16"))
    told = differing_settings(recipe(tmp_path).systems)
    assert told == {ROTARY: "0.2 precision=--bf16", LEARNED: "0.1 precision=fp32"}


def test_seeds_that_begin_with_the_same_training_are_one_system(tmp_path):
    """Each begins with a file of its own."""
    for seed in (1, 2):
        settings = f"data 0a\ntrain x\nfrom {seed}{seed}\n"
        path = result(tmp_path, ROTARY, seed, more={"settings": settings}, run={"from": "a/b, SHA-256 0"}, test=0.1)
    assert sorted(named(recipe(tmp_path))) == [ROTARY]
    altered(path, lambda made: made["run"].update({"from": "a/c, SHA-256 0"}))
    assert sorted(named(recipe(tmp_path))) == [f"{ROTARY} (settings 1)", f"{ROTARY} (settings 2)"]


def test_seeds_are_averaged_however_early_they_stopped_unless_they_were_to_train_longer(tmp_path):
    for seed, updates in ((1, 12), (2, 15)):
        result(tmp_path, ROTARY, seed, updates=updates, test=0.1)
        result(tmp_path, LEARNED, seed, updates=20, run={"max_update": f"{seed}000"}, test=0.4)
    assert sorted(named(recipe(tmp_path))) == [ROTARY, f"{LEARNED} (settings 1)", f"{LEARNED} (settings 2)"]


def test_seeds_whose_fine_tuning_tried_another_grid_are_another_system(tmp_path):
    """Tasks may have grids of their own. Two grids of one model are no contradiction."""
    for task, metric in (("CoLA", "matthews"), ("RTE", "accuracy")):
        tuned(tmp_path, LEARNED, task, rates=(3e-5, 1e-3), **{metric: 10.0})
    for seed in (1, 2):
        tuned(tmp_path, ROTARY, "CoLA", seed, matthews=20.0 + seed)
        tuned(tmp_path, ROTARY, "RTE", seed, rates=(3e-5, 1e-3), accuracy=60.0)
    for seed in (1, 3):
        tuned(tmp_path / "more", ROTARY, "CoLA", seed, rates=(3e-5, 1e-3), matthews=30.0 + seed)
    report = read_report([*tmp_path.glob("*2000"), tmp_path / "more/2000"])
    found = {name: system.scores("CoLA", "matthews") for name, system in named(report.recipes[0]).items()}
    rotary = {f"{ROTARY} (settings 1)": {1: 21.0, 2: 22.0}, f"{ROTARY} (settings 2)": {1: 31.0, 3: 33.0}}
    assert found == {LEARNED: {1: 10.0}, **rotary}
    assert not report.broken


def test_runs_that_did_not_finish_count_for_nothing(tmp_path):
    result(tmp_path, ROTARY, 1, test=0.1)
    result(tmp_path, ROTARY, 2, updates=5, more={"unfinished": "killed"})
    made = recipe(tmp_path)
    assert list(named(made)[ROTARY].runs) == [1] and [run.seed for run in made.unfinished] == [2]


def test_a_run_that_finished_elsewhere_is_not_unfinished(tmp_path):
    for here, seed, settings in (("a", 1, "train x"), ("a", 2, "train x"), ("a", 3, "train y"), ("b", 1, "train x")):
        more = {"settings": settings, **({"unfinished": "killed"} if here == "a" else {})}
        result(tmp_path / here, ROTARY, seed, more=more)
    result(tmp_path / "b", ROTARY, 3, more={"settings": "train x"})
    (made,) = read_report([tmp_path / "a", tmp_path / "b"]).recipes
    assert [run.seed for run in made.unfinished] == [2, 3]


def test_of_another_text_under_one_name_the_later_file_is_left_out(tmp_path, capsys):
    result(tmp_path, ROTARY, test=0.1)
    other = {**scored("test", 0.3), "statistics": dict(scored("test", 0.3)["statistics"])}
    other["statistics"]["source_words"] = [1, *other["statistics"]["source_words"][1:]]
    path = result(tmp_path, SINUSOIDAL, more={"tests": {"test": other}})
    report = read_report([tmp_path])
    assert list(named(report.recipes[0])) == [ROTARY]
    (reason,) = report.broken
    assert str(path) in reason and reason in capsys.readouterr().err


def test_of_two_results_of_one_run_the_later_file_is_left_out(tmp_path):
    for rate, folder in ((0.1, tmp_path / "a"), (0.3, tmp_path / "b")):
        folder.mkdir()
        path = result(folder, ROTARY, test=rate)
    report = read_report([tmp_path / "a", tmp_path / "b"])
    (reason,) = report.broken
    assert str(path) in reason
    (system,) = report.recipes[0].systems
    assert system.scores("test", "sacrebleu") == {1: exact_bleu("test", 0.1)}
    assert not read_report([tmp_path / "a", tmp_path / "a"]).broken


def test_names_tell_systems_of_other_data(tmp_path):
    for arch, data in ((ROTARY, "0a"), (SINUSOIDAL, "0b")):
        result(tmp_path, arch, more={"settings": f"data {data}\ntrain x\n"}, test=0.1)
    result(tmp_path, LEARNED, test=0.1)  # of an earlier version, which does not say
    assert sorted(named(recipe(tmp_path))) == [f"{ROTARY} (data 1)", LEARNED, f"{SINUSOIDAL} (data 2)"]


@pytest.mark.parametrize("change", [{"blocks": "other"}, {"tokens": 900}])
def test_perplexities_of_other_blocks_or_tokens_are_not_compared(tmp_path, change):
    model(tmp_path, ROTARY, 16.0)
    model(tmp_path, "tupe_a_tiny", 8.0, **change)
    assert list(named(recipe(tmp_path))) == [ROTARY]


def test_a_fine_tuning_on_other_examples_is_left_out(tmp_path, capsys):
    """As of a trial on the head of the training set."""
    for seed in (1, 2):
        path = tuned(tmp_path, ROTARY, "CoLA", seed, matthews=20.0 + seed)
    altered(path, lambda made: made["data"].update(examples={"train": 40, "valid": 9}))
    assert named(recipe(path.parent))[ROTARY].scores("CoLA", "matthews") == {1: 21.0}
    said = capsys.readouterr().err
    assert f"{path} has another text in CoLA" in said and "tune" in said
