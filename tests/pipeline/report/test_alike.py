"""In what two systems differ, and which systems are compared: those that were trained alike."""

import re

import pytest

from pipeline.files import read_json, write_json
from pipeline.report.alike import changes

from .made_results import markdown, part, recipe, result, row
from .test_recipe import ROTARY, SINUSOIDAL

HASH = "0" * 64


def altered(path, averaged=5, search="beam 4", **entries):
    made = read_json(path)
    made["training"]["averaged"] = averaged
    for test in made["tests"].values():
        test["settings"] = search
    write_json(path, {**made, **entries})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"averaged": 1}, "averaged 1"),
        ({"search": "beam 1"}, "beam 1"),
        ({"settings": f"data 1{HASH[1:]}\ntrain x --save-interval-updates 5\n"}, "other data"),
        ({"settings": f"data {HASH}\ntrain x --save-interval-updates 5 devices 2\n"}, "devices 2"),
        ({"settings": f"data {HASH}\ntrain x --save-interval-updates 5 target tokens 9 from a1\n"}, "target tokens 9"),
        ({"settings": f"data {HASH}\ntrain x --save-interval-updates 5\n"}, ""),
        ({}, ""),  # the data of one are not recorded
    ],
)
def test_what_differs_is_named(tmp_path, changed, said):
    plain = {"settings": f"data {HASH}\ntrain x --save-interval-updates 5\n"}
    altered(result(tmp_path, SINUSOIDAL, test=0.3), **plain)
    altered(result(tmp_path, ROTARY, test=0.1), **changed)
    rotary, sinusoidal = recipe(tmp_path)["ran"]
    assert changes(rotary, sinusoidal) == said
    otherwise = {"settings": "one batch per update", "averaged": "averaged 5", "search": "beam 4"}
    expected = said if said in ("", "other data") else otherwise[next(iter(changed))]
    assert changes(sinusoidal, rotary) == expected
    assert [one["otherwise"] for one in [recipe(tmp_path)["made"]]] == [[(said, [rotary.label])] if said else []]


def test_half_precision_that_the_devices_decided_is_a_flag(tmp_path):
    result(tmp_path, SINUSOIDAL, flags="--bf16", test=0.3)
    altered(
        result(tmp_path, ROTARY, test=0.1),
        run={**read_json(result(tmp_path, ROTARY, test=0.1))["run"], "batch": "--bf16"},
    )
    assert changes(*recipe(tmp_path)["ran"]) == ""


@pytest.mark.parametrize("changed", [{"averaged": 1}, {"search": "beam 1"}])
def test_a_variant_is_compared_with_the_plain_system_that_was_averaged_and_searched_alike(tmp_path, changed):
    altered(result(tmp_path, "tupe_a_tiny", 1, test=0.5), **changed)
    result(tmp_path, "tupe_a_tiny", 2, test=0.1)
    result(tmp_path, "tupe_a_tiny", 2, "off", "--tupe-no-reset", test=0.3)
    made = recipe(tmp_path)
    assert made["variants"]["changes"] == ["--tupe-no-reset"] and not made["variants"]["differences"]["test"][0].better
    (claim,) = made["claims"]
    assert claim.verdict == "in line" and not claim.otherwise


def test_a_claim_says_if_its_systems_were_trained_otherwise(tmp_path):
    result(tmp_path, ROTARY, updates=9, test=0.1)
    result(tmp_path, SINUSOIDAL, wanted=2000, updates=2000, test=0.3)
    said = part(markdown(tmp_path), "The papers' claims")
    assert ", trained otherwise: `at most 20 updates` |" in said


def test_the_step_is_of_one_benchmark_the_one_with_most_systems(tmp_path):
    from pipeline.report.benchmarks import Steps
    from pipeline.report.runs import choose_steps, step

    archs = [SINUSOIDAL, ROTARY, "tupe_a_tiny"]
    for arch in archs:
        result(tmp_path, arch, flags="--criterion c --optimizer o", test=0.1)
    ran = {system.arch: system for system in recipe(tmp_path)["ran"]}
    few = Steps("few", "c", "o", {SINUSOIDAL: 1.0, ROTARY: 5.0})
    most = Steps("most", "c", "o", {SINUSOIDAL: 1.0, ROTARY: 2.0, "tupe_a_tiny": 3.0})
    other = Steps("other", "x", "o", {**most.times, "z": 1.0})
    baseline = ran[SINUSOIDAL]
    chosen = choose_steps(list(ran.values()), baseline, [few, other, most])
    assert chosen is most and [step(ran[arch], baseline, chosen) for arch in archs] == [1.0, 2.0, 3.0]


def test_an_unfinished_run_belongs_to_the_system_with_its_updates(tmp_path):
    result(tmp_path, ROTARY, 1, test=0.1)
    result(tmp_path, ROTARY, 2, wanted=40, updates=40, test=0.1)
    result(tmp_path, ROTARY, 3, updates=5, unfinished="killed")
    made = recipe(tmp_path)
    shown = {variant: row(made, ROTARY, variant)["seeds"] for variant in ("20 updates", "40 updates")}
    assert shown == {"20 updates": "1; 3 not finished", "40 updates": "2"}


def test_a_run_without_a_score_was_run(tmp_path):
    result(tmp_path, SINUSOIDAL, rates={"test": 0.3, "val": 0.3})
    result(tmp_path, ROTARY, rates={"val": 0.1})
    assert row(recipe(tmp_path, archs=[ROTARY], seeds=[1]), ROTARY)["seeds"] == "1 not scored"
    text = markdown(tmp_path, archs=[ROTARY, "tupe_a_tiny"], seeds=[1])
    assert re.search(rf"^\| `{ROTARY}` \| 1 not scored \| not scored \|", text, re.MULTILINE)
    assert re.search(r"^\| `tupe_a_tiny` \| 1 not run \| not run \|", text, re.MULTILINE)


def test_the_first_test_set_is_that_of_most_runs(tmp_path):
    for arch in (ROTARY, SINUSOIDAL):
        rates = {"test_x2": 0.1} if arch == ROTARY else {"test": 0.1, "test_x2": 0.3}
        result(tmp_path, arch, 1, rates=rates)
        result(tmp_path, arch, 2, rates={"test": 0.2})
    assert [one["name"] for one in recipe(tmp_path)["sets"]] == ["test", "test_x2"]
