"""The report on fine-tuning: one table of systems and tasks, in which each system has one name."""

import xml.etree.ElementTree as ElementTree

import pytest

from pipeline.command import Failure
from pipeline.report.data import Wanted, read_report
from pipeline.report.render import answers, to_html, to_markdown

from .made_results import markdown, part, table
from .made_text import LEARNED, ROTARY, TUPE, folders, model, text, tuned


def test_fine_tunings_are_compared_over_common_seeds(tmp_path):
    for arch, gain in ((LEARNED, 0.0), (ROTARY, 1.0)):
        tuned(tmp_path, arch, "CoLA", 1, matthews=50.0 + gain)
        tuned(tmp_path, arch, "RTE", 1, accuracy=70.0)
    tuned(tmp_path, LEARNED, "CoLA", 2, matthews=60.0)
    assert table(text(tmp_path), "Fine-tuning")[f"`{ROTARY}`"][-1] == "+0.50"


def test_models_that_were_pretrained_in_several_ways_are_told_apart_in_every_task(tmp_path):
    for way, gain in (("b", 0.0), ("a", 1.0)):
        for task, metric in (("CoLA", "matthews"), ("RTE", "accuracy")):
            for seed in (1, 2)[: 2 if task == "CoLA" or way == "b" else 1]:
                tuned(tmp_path, ROTARY, task, seed, way=way, **{metric: 50.0 + gain})
    tuned(tmp_path, ROTARY, "RTE", 2, way="c", accuracy=90.0)
    made = table(text(tmp_path), "Fine-tuning")
    assert made[f"`{ROTARY}` (pretraining 1)"][:3] == ["1, 2", "**51.00±0.00** (3e-05)", "51.00 (3e-05)"]
    assert made[f"`{ROTARY}` (pretraining 2)"][:3] == ["1, 2", "50.00±0.00 (3e-05)", "50.00±0.00 (3e-05)"]
    assert made[f"`{ROTARY}` (pretraining 3)"][1:3] == ["not run", "**90.00** (3e-05)"]


def test_models_of_other_updates_are_told_apart_even_of_one_seed(tmp_path):
    for task, metric in (("CoLA", "matthews"), ("RTE", "accuracy")):
        for updates, more in ((1000, {"so_far": "yes"}), (2000, {})):
            tuned(tmp_path, ROTARY, task, pretrained={"updates": updates, **more}, **{metric: updates / 100})
    tuned(tmp_path, ROTARY, "RTE", accuracy=5.0)  # of a version that did not record it
    made = table(text(tmp_path), "Fine-tuning")
    ends = ("pretraining 2, 1,000 of 2,000 updates, averaged 5", "pretraining 3, at most 2,000 updates, averaged 5")
    assert made[f"`{ROTARY}` (pretraining 1)"][1:3] == ["not run", "5.00 (3e-05)"]
    assert [made[f"`{ROTARY}` ({end})"][-2] for end in ends] == ["10.00", "20.00"]
    assert "has the same run as" not in text(tmp_path)


def test_seeds_whose_pretraining_ended_by_patience_are_one_system(tmp_path):
    for seed, updates in ((1, 1500), (2, 1700), (3, 2000)):
        tuned(tmp_path, ROTARY, "RTE", seed, pretrained={"updates": updates}, accuracy=60.0 + seed)
    assert table(text(tmp_path), "Fine-tuning")[f"`{ROTARY}`"][:2] == ["1, 2, 3", "**62.00±1.00** (3e-05)"]


def test_a_model_with_several_pretrainings_stays_the_baseline(tmp_path):
    for way, seeds in (("b", (1, 2)), ("a", (1,))):
        for seed in seeds:
            tuned(tmp_path, LEARNED, "CoLA", seed, way=way, matthews=50.0)
    tuned(tmp_path, ROTARY, "CoLA", matthews=60.0)
    tuned(tmp_path, ROTARY, "SCM", name="scm", way="c", accuracy=60.0)  # another table
    (made, _) = folders(tmp_path).tuned
    assert made["baseline"].arch == LEARNED and (ROTARY, "") in made["labels"]


def test_systems_that_were_fine_tuned_otherwise_say_so_with_one_name_in_each_task(tmp_path):
    for task, metric in (("CoLA", "matthews"), ("RTE", "accuracy")):
        for epochs in (3, 10):
            for seed in (1, 2)[: 1 + (task == "CoLA")]:
                tuned(tmp_path / str(epochs), ROTARY, task, seed, how=f" epochs {epochs} batch 32", **{metric: epochs})
    made = table(to_markdown(read_report(sorted(tmp_path.glob("*/*")), Wanted())), "Fine-tuning")
    assert [made[f"`{ROTARY}` (epochs {epochs} batch 32)"][-2] for epochs in (3, 10)] == ["3.00", "10.00"]


def test_fine_tuning_is_one_table_of_systems_and_tasks(tmp_path):
    for arch, gain in ((LEARNED, 0.0), (TUPE, 4.0)):
        for seed in (1, 2):
            tuned(tmp_path, arch, "CoLA", seed, f"{seed + 1}e-05", matthews=20.0 + gain)
        cut = {"train": 3, "valid": 1} if gain else {"train": 2, "valid": 0}
        scored = dict(pearson=70.0 + gain, spearman=60.0)
        tuned(tmp_path, arch, "STS-B", shortened=cut, chance={"pearson": 0.5, "x": 9.0}, **scored)
    tuned(tmp_path, ROTARY, "CoLA", matthews=90.0)
    report = folders(tmp_path)
    made = text(tmp_path)
    assert not report.recipes and "glue, fine-tuning: 3 systems, 2 tasks." in answers(report)
    assert f"Best on average: {TUPE}, 49.00." in answers(report) and "it has +4.00 (not tested)" in answers(report)
    assert table(made, "Fine-tuning") == {
        "header": ["system", "seeds", "CoLA Matthews ↑", "STS-B Pearson ↑", "STS-B Spearman ↑", "average ↑",
                   "difference"],
        f"`{TUPE}`": ["1, 2", "24.00±0.00 (2e-05 / 3e-05)", "**74.00** (3e-05)", "**60.00**", "49.00", "+4.00"],
        f"`{LEARNED}`": ["1, 2", "20.00±0.00 (2e-05 / 3e-05)", "70.00 (3e-05)", "**60.00**", "45.00", "baseline"],
        f"`{ROTARY}`": ["1", "**90.00** (3e-05)", "not run", "not run", "", ""],
    }  # fmt: skip
    shortened = "Shortened, in training and validation: STS-B 3 and 1."
    assert shortened in made
    assert "medians of 5 trainings" in made and "CoLA 9" in made
    assert "The most frequent label has: STS-B Pearson 0.50.\n" in made
    assert table(made, "Published figures")["`tupe_r`"][-1] == "84.90"


def test_a_recipe_of_fine_tuning_can_be_the_only_one(tmp_path):
    tuned(tmp_path, ROTARY, "SCM", name="scm", accuracy=55.0, count=1)
    model(tmp_path, LEARNED, 20.0)
    paths = sorted(tmp_path.iterdir())
    assert [one["name"] for one in read_report(paths, Wanted("scm")).tuned] == ["scm"]
    assert not read_report(paths, Wanted("scm")).recipes and not read_report(paths, Wanted("books")).tuned
    made = markdown(tmp_path / "3")
    assert "is no result" in made and "average" not in part(made, "Fine-tuning") and "Published" not in made
    with pytest.raises(Failure, match="the baseline 'x' has no result"):
        read_report(paths, Wanted(baseline="x"))


def test_names_in_files_of_fine_tuning_are_escaped(tmp_path):
    nasty = "<b>a|b</b> *c* `d`"
    tuned(tmp_path / "x", "`|<i>", nasty, name="<u>", accuracy=50.0)
    tuned(tmp_path / "x", "`|<i>", "SCM", name="<u>", accuracy=50.0)
    page = ElementTree.fromstring(to_html(text(tmp_path / "x"), {}))
    assert not {"b", "i", "u", "em"} & {element.tag for element in page.find("body/main").iter()}
    assert {len(line) for line in next(page.iter("table")).iter("tr")} == {6}


def test_other_learning_rates_are_named(tmp_path):
    for arch, rates in ((LEARNED, (1e-7, 2e-7)), (ROTARY, (1e-4, 3e-4))):
        tuned(tmp_path, arch, "CoLA", rates=rates, matthews=50.0)
    assert "Not all had the same choice: 1e-07, 2e-07 with 1 training each; 0.0001, 0.0003 with 1 t" in text(tmp_path)
