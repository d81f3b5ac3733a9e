"""Tables as Markdown: the columns of a recipe, escaped text, benchmarks."""

import pytest

from pipeline.report.benchmarks import read_benchmarks
from pipeline.report.comparison import Difference
from pipeline.report.tables import change, conditions, lengths_table, p_value, speed_table, system_table
from pipeline.scoring.metrics import METRICS

from .made_results import LEARNED, ROTARY, SINUSOIDAL, recipe, result, scored


def cells(markdown):
    return [[cell.strip() for cell in line[2:-2].split(" | ")] for line in markdown.splitlines()]


def test_a_table_has_scores_differences_and_costs_and_no_empty_column(tmp_path):
    for arch, rate in ((SINUSOIDAL, 0.3), (ROTARY, 0.1), (LEARNED, 0.3)):
        result(tmp_path, arch, test=rate, test_x2=0.3, val=0.2)
    made = recipe(tmp_path)
    heads, _, best, *_ = cells(system_table(made))
    assert [head.split()[0] for head in heads] == "system seeds sacreBLEU difference p ↑ ↑ parameters".split()
    found = made.differences[made.systems[0]]
    assert best[:2] == ["`roformer`", "1"] and best[3:5] == [change(found), p_value(found)]
    assert cells(system_table(made, ["seeds"]))[0] == ["system `…_tiny`", "seeds"]


def test_the_best_length_is_that_of_the_references(tmp_path, monkeypatch):
    for arch, length in ((SINUSOIDAL, 82.75), (ROTARY, 107.31), (LEARNED, 130.0)):
        test = scored("test", 0.1)
        scores = {**test["scores"], "length_ratio": {"score": length, "signature": ""}}
        result(tmp_path, arch, more={"tests": {"test": {**test, "scores": scores}}})
    lengths = [row[1] for row in cells(system_table(recipe(tmp_path), ["test length_ratio"]))]
    assert lengths[0] == "length → 100 `test`" and sorted(lengths[2:]) == ["**107.31**", "130.00", "82.75"]
    monkeypatch.setattr(METRICS["length_ratio"], "in_report", True)
    assert lengths[0] in cells(system_table(recipe(tmp_path)))[0]


@pytest.mark.parametrize(
    ("run", "shown"), [({"jobs": "2"}, True), ({}, False), ({"jobs": "2", "machine": "another"}, False)]
)
def test_tokens_per_second_are_shown_if_all_were_measured_alike(tmp_path, run, shown):
    result(tmp_path, SINUSOIDAL, run={"jobs": "2"}, test=0.1)
    result(tmp_path, ROTARY, run=run, training={"target_tokens_per_second": 8000}, test=0.1)
    assert ("8,000" in system_table(recipe(tmp_path))) == shown


def test_a_step_is_not_that_of_a_variant_or_of_half_precision(tmp_path):
    result(tmp_path, ROTARY, test=0.1)
    result(tmp_path, ROTARY, variant="half", test=0.1)
    result(tmp_path, SINUSOIDAL, flags="--bf16", test=0.1)
    made = recipe(tmp_path)
    made.steps = dict.fromkeys((ROTARY, SINUSOIDAL), 1.5)
    assert sorted(row[-1] for row in cells(system_table(made, ["step"]))[2:]) == ["", "", "1.50"]


def test_a_difference_has_its_interval_and_small_p_have_no_digits():
    found = Difference((2.0,), (3.5,), 0.0004, (-2.25, 0.5))
    assert change(found) == "\u22121.50 (\u22122.25 to +0.50)" and p_value(found) == "<0.001"
    assert change(Difference((2.0,), (1.0,))) == "+1.00" and p_value(Difference((2.0,), (1.0,))) == ""


def test_facts_about_runs_stand_once_without_seed_and_architecture(tmp_path):
    for arch, seed in ((ROTARY, 1), (ROTARY, 2), (SINUSOIDAL, 1)):
        result(tmp_path, arch, seed, test=0.1, more={"data": {"pairs": {"train": 7000}, "kept": 6000}})
    facts = dict(conditions(recipe(tmp_path)))
    assert facts["trained"] == ["`scripts/train.sh --arch ARCH --seed SEED`"]
    assert facts["data"] == ["`7,000 pairs, 6,000 after cleaning`"] and facts["search"] == ["`beam 4`"]
    assert len(facts["p"]) == 1 and "commit" not in facts, "none is recorded"


def test_benchmarks_have_a_row_for_each_candidate_with_all_its_cases(tmp_path):
    row = {"candidate": "a, fast", "times as fast": 1.504, "quartiles": "1.3971 to 2", "share of peak": "9%"}
    rows = [{**row, "sentences": 64}, {**row, "sentences": 1, "times as fast": 3.0}, {**row, "candidate": "stock"}]
    files = read_benchmarks([(tmp_path / "benchmark-decode-cpu.json", {"rows": rows, "machine": {"cpu": "x"}})])
    head, _, first, last = cells(speed_table(files))
    assert len(head) == 4 and first[:2] == ["`decode-cpu`", "`a, fast`"] and last[1] == "`stock`"
    assert first[2] == "batch 64: 1.50 (1.40 to 2.00); batch 1: 3.00 (1.40 to 2.00)"
    assert len(cells(speed_table(files, "^stock"))) == 3


def test_the_times_of_candidates_stand_by_the_length_of_sentences(tmp_path):
    files = []
    for length, ratio in ((128, 0.5), (2048, 0.25)):
        rows = [{"candidate": "linear", "times as fast": 1.0, "quartiles": "1 to 1", "peak MiB": 90.2}]
        rows.append({**rows[0], "candidate": "t5", "times as fast": ratio})
        content = {"rows": rows, "batch": {"sentences": 2, "source tokens": 2 * length}}
        files.append((tmp_path / f"benchmark-train-{length}.json", content))
    assert cells(lengths_table(read_benchmarks(files), "t5|linear")) == [
        ["candidate", "128 tokens", "2,048 tokens"],
        ["---", "---:", "---:"],
        ["`linear`", "1.00 (90)", "1.00 (90)"],
        ["`t5`", "2.00 (90)", "4.00 (90)"],
    ]
