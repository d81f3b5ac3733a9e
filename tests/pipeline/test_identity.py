"""The committed results are those of today's recipes: each one's settings, seed by seed and flag by flag."""

import re
import shlex

import pytest

from pipeline.files import read_json
from pipeline.paths import ROOT
from pipeline.recipes import load_recipe
from pipeline.settings import flags_in, normalised
from pipeline.training.train import Training, parse

RESULTS = {path.stem: result for path in sorted((ROOT / "results").glob("*.json"))
           if (result := read_json(path)).get("settings")}  # fmt: skip


@pytest.mark.parametrize("name", [name for name, result in RESULTS.items() if "grid" not in result])
def test_a_committed_training_has_the_settings_of_its_recipe(tmp_path, name):
    result, first = RESULTS[name], tmp_path / "first.pt"
    _, _, flags = result["run"]["command"].partition(" -- ")
    words = ["--data", tmp_path, "--out", tmp_path, "--arch", result["arch"], "--recipe", result["recipe"]]
    if load_recipe(result["recipe"]).start:
        first.touch()
        words += ["--from", first]
    training = Training(parse([*map(str, words), "--seed", str(result["seed"]), "--", *shlex.split(flags)]))
    assert training.settings.splitlines()[0] == normalised(result["settings"]).splitlines()[1]
    longer = re.search(r"--max-update (\d+)", result["run"]["command"])
    assert int(result["run"]["max_update"]) in (training.max_update, int(longer[1]) if longer else 0)
    assert result["training"]["averaged"] == training.recipe.score.average or "averaged" in result["variant"]


@pytest.mark.parametrize("name", [name for name, result in RESULTS.items() if "grid" in result])
def test_a_committed_fine_tuning_has_the_settings_of_its_pretraining_and_its_recipe(name):
    result = RESULTS[name]
    system = name.removeprefix(f"{result['recipe']}-")
    *pretraining, tuning = result["settings"].splitlines(keepends=True)
    assert "".join(pretraining) == RESULTS[f"mlm_books_cpu-{system}"]["settings"]
    recipe = load_recipe(result["recipe"].rpartition("_")[0])
    assert tuning.endswith(f" epochs {recipe.train['max-epoch']} batch {recipe.train['batch-size']}\n")
    assert {cell["seed"] for cell in result["grid"]} >= set(recipe.grid.seed)
    flags = flags_in(shlex.split(result["run"]["flags"]))
    assert {name: " ".join(flags[name]) for name in recipe.flags} == {k: " ".join(v) for k, v in recipe.flags.items()}


def test_results_on_the_same_text_have_the_same_data():
    for shared in ("multi30k", "mlm_books", "lm_books_bytes", "demo"):
        recipes = {
            name: load_recipe(name).shares for name in {r["recipe"] for r in RESULTS.values() if "grid" not in r}
        }
        lines = {r["settings"].splitlines()[0] for r in RESULTS.values() if recipes.get(r["recipe"]) == shared}
        assert len(lines) == 1


def test_the_last_of_two_equal_flags_counts_in_settings_of_any_order():
    line = "train --lr 5e-4 --bf16 --adam-betas (0.9, 0.98) --lr=0.004 --save-interval-updates 50 devices 2 from ab"
    other = "train --adam-betas (0.9, 0.98) --bf16 --lr 0.004 --save-interval-updates 50 devices 2 from ab"
    assert normalised(f"data x\n{line}\n") == normalised(f"data x\n{other}\n") == f"data x\n{other}\n"
    assert flags_in(["--lr", "1", "--x", "-1", "a", "--lr=2=3"]) == {"--x": ["-1", "a"], "--lr": ["2=3"]}
