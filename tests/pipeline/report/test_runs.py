"""What went into the runs, as the report has it: speed, costs, commands, trainings that ended early."""

import json

import pytest

from pipeline.report.data import Wanted, read_report
from pipeline.report.pictures import _curves, draw
from pipeline.report.recipe import still_falling
from pipeline.report.runs import grouped
from pipeline.report.systems import Label

from .made_results import recipe, result, row

SINUSOIDAL, ROTARY = "transformer_sinusoidal_tiny", "roformer_tiny"
MEASURED = {"threads": "1", "jobs": "2"}


@pytest.mark.parametrize(
    ("other", "relative"),
    [
        ({}, 0.8),
        ({"machine": "y"}, None),
        ({"measured": {"threads": "1", "jobs": "1"}}, None),
        ({"measured": {"threads": "1"}}, None),
        ({"speed": None}, None),
    ],
)
def test_speeds_are_compared_only_if_they_were_measured_alike(tmp_path, other, relative):
    result(tmp_path, SINUSOIDAL, measured=MEASURED)
    result(tmp_path, ROTARY, **{"measured": MEASURED, "speed": 80, **other})
    made = recipe(tmp_path)
    assert row(made, ROTARY)["speed"] == relative and row(made, SINUSOIDAL)["speed"] == 1


@pytest.mark.parametrize(
    ("nll", "falling"), [([3.0, 2.5, 2.0, 1.99], False), ([3.0, 2.5, 2.0, 1.98], True), ([2.0], False), ([], False)]
)
def test_a_training_that_ended_early_is_noticed(nll, falling):
    curve = {"valid": {"updates": [50, 70, 80, 100][: len(nll)], "nll": nll}}
    run, training = {"flags": "--lr 1 --patience 10", "max_update": "100"}, {"updates": 100}
    assert still_falling({"curve": curve, "run": run, "training": training}) == falling
    assert not still_falling({"curve": curve, "run": {**run, "max_update": "200"}, "training": training})


def test_a_training_that_was_continued_is_told_with_its_seed(tmp_path):
    for seed, processes in ((1, 1), (2, 3)):
        path = result(tmp_path, ROTARY, seed)
        made = json.loads(path.read_text())
        made["training"]["processes"] = processes
        path.write_text(json.dumps(made))
    result(tmp_path, SINUSOIDAL)
    assert recipe(tmp_path)["made"]["costs"]["times continued"] == ["2 (seed 2)", ""]


def test_costs_are_those_of_the_log_and_said_once_if_they_are_alike(tmp_path):
    result(tmp_path, SINUSOIDAL, measured=MEASURED)
    result(tmp_path, ROTARY, measured=MEASURED, speed=80)
    made = recipe(tmp_path)["made"]
    assert made["costs"] == {"tokens per second": ["80", "100"]}
    assert (made["common_costs"]["threads"], made["common_costs"]["runs at a time"]) == ("1", "2")
    assert (
        made["common_costs"]["wall time"] == "0 min 50 s" and made["common_costs"]["validation perplexity ↓"] == "4.00"
    )
    result(tmp_path, ROTARY, speed=80)  # not recorded how many runs shared the machine
    assert recipe(tmp_path)["made"]["costs"]["wall time"] == ["", "0 min 50 s"]


def test_what_is_recorded_of_one_system_is_not_said_of_all():
    one, two = Label("a"), Label("b")
    assert grouped([(one, 1), (two, 1)]) == [(1, [])]
    assert grouped([(one, 1), (two, None)]) == grouped([(two, None), (one, 1)]) == [(1, [one])]


def test_times_that_are_not_known_are_left_out(tmp_path):
    points = {"updates": [10, 20], "seconds": [None, None], "nll": [3.0, 2.0]}
    result(tmp_path, SINUSOIDAL, measured=MEASURED)
    path = result(tmp_path, ROTARY, measured=MEASURED, speed=None, more={"curve": {"train": points, "valid": points}})
    made = json.loads(path.read_text())
    made["training"]["seconds"] = None
    path.write_text(json.dumps(made))
    result(tmp_path, ROTARY, 2, measured=MEASURED)  # a mean of one seed alone would not be that of the system
    shown = recipe(tmp_path)
    assert shown["made"]["costs"]["wall time"] == ["", "0 min 50 s"]
    assert shown["made"]["costs"]["tokens per second"] == ["", "100"]


def test_curves_over_time_go_by_measured_steps(tmp_path):
    points = {"updates": [10, 20], "seconds": [5, 900], "nll": [3.0, 2.0]}  # of which 15 minutes were a pause
    for arch in (SINUSOIDAL, ROTARY):
        result(tmp_path, arch, more={"curve": {"train": points, "valid": points}})
    systems = recipe(tmp_path)["ran"]
    for steps, expected in ((None, [20, 20]), ({systems[0]: 1.0, systems[1]: 1.5}, [20, 30])):
        lines = _curves(systems, "valid", steps, "x").axes[0].get_lines()
        assert sorted(line.get_xdata()[-1] for line in lines) == expected


def test_a_command_stands_once_for_all_its_runs(tmp_path):
    for arch, seed in ((ROTARY, 1), (ROTARY, 2), (SINUSOIDAL, 1)):
        path = result(tmp_path, arch, seed)
    other = json.loads(path.read_text())
    other["run"]["command"] = f"scripts/train.sh --seed 1 --arch {SINUSOIDAL} --"  # in another order
    path.write_text(json.dumps(other))
    made = recipe(tmp_path)["made"]
    assert made["commands"] == {
        "scripts/train.sh --arch ARCH --seed SEED": {(ROTARY, ""): [1, 2], (SINUSOIDAL, ""): [1]}
    }
    assert made["averaged"] == [(5, [])] and made["commits"] == [("not recorded", [])]


@pytest.mark.parametrize(
    ("flags", "measured"), [("", 1.25), (" --amp", None), (" --criterion stock", None), (" --optimizer adam", None)]
)
def test_the_cost_of_a_step_is_that_of_a_benchmark_with_both(tmp_path, flags, measured):
    trained_with = "--criterion fused --optimizer fused_adam"
    result(tmp_path, SINUSOIDAL, flags=trained_with)
    result(tmp_path, ROTARY, flags=trained_with + flags)
    result(tmp_path, ROTARY, variant="half", flags=f"{trained_with} --rope-layout half")
    for name, ratios in {"one": {ROTARY: 9.0}, "two": {SINUSOIDAL: 1.0, ROTARY: 0.8}}.items():
        rows = [
            {"candidate": arch, "precision": precision, "seconds": 1.0, "times as fast": value, "quartiles": ""}
            for arch, ratio in ratios.items()
            for precision, value in (("bf16", 7.0), ("fp32", ratio))
        ]
        made_with = {"criterion, optimizer": ["fused", "fused_adam"]}
        text = json.dumps({**made_with, "rows": [{**one, "share of peak": ""} for one in rows]})
        (tmp_path / f"benchmark-{name}.json").write_text(text)
    report = read_report([tmp_path], Wanted())
    (made,) = report.recipes
    assert (row(made, ROTARY)["step"], row(made, ROTARY, "half")["step"]) == (measured, None)
    draw(report)
    assert ("valid-time" in made["pictures"]) == (measured is not None)  # of two systems or more
