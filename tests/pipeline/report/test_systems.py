"""Which seeds are one system, and which of several settings is the baseline."""

import pytest

from pipeline.files import read_json, write_json

from .made_results import recipe, result
from .test_recipe import ROTARY, SINUSOIDAL, names


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made["training"].update(averaged=1),
        lambda made: made["tests"]["test"].update(settings="beam 1"),
        lambda made: made["run"].update(batch="--bf16"),
    ],
)
def test_seeds_of_another_average_search_or_precision_are_another_system(tmp_path, change):
    for seed in (1, 2):
        path = result(tmp_path, ROTARY, seed, test=0.1)
    made = read_json(path)
    change(made)
    write_json(path, made)
    assert sorted(names(recipe(tmp_path))) == [f"{ROTARY} (settings 1)", f"{ROTARY} (settings 2)"]


def test_of_several_settings_the_baseline_has_that_of_the_others(tmp_path):
    for seed in (1, 2, 3):
        result(tmp_path, ROTARY, seed, test=0.1)
        result(tmp_path, SINUSOIDAL, seed, test=0.3, wanted=10000 if seed == 1 else 20)
    for chosen in (None, SINUSOIDAL):
        assert recipe(tmp_path, baseline=chosen)["baseline"].label == (SINUSOIDAL, "20 updates")
