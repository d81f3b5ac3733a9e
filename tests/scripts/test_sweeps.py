"""What a sweep plans: its options, its jobs, the GPUs that they take. How one ends is in test_runs.py."""

import json
import os
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.command import Failure
from pipeline.files import write_json
from pipeline.sweep.options import parse, parse_config
from pipeline.sweep.sweep import Sweep
from pipeline.systems import System, read_systems

from ..commands import ROOT, SMALL, run

SLURM = Path(os.environ.get("SLURM_CONF", "/etc/slurm/slurm.conf"))


def snakemake(folder, *options, fails=False, **config):
    """What Snakemake says of the sweep with these entries, called in a folder."""
    entries = [f"{name}={value}" for name, value in config.items()]
    words = ["-s", ROOT / "scripts/Snakefile", *options, "--config", *entries]
    return run("python", "-m", "snakemake", *words, cwd=folder, fails=fails)


def planned(done):
    """The jobs of a dry run, by rule."""
    rows = re.findall(r"^(\w+) +(\d+)$", done.stdout.split("Job stats:")[1], re.MULTILINE)
    return {rule: int(count) for rule, count in rows}


def test_systems_are_architectures_and_variants():
    assert read_systems(["roformer_t*"], ["half roformer_base --rope-layout half"], None) == [
        System("roformer_tiny"),
        System("roformer_base", "half", ("--rope-layout", "half")),
    ]
    half = read_systems([], ["half roformer_base --rope-layout half"], None)
    assert [system.name for system in half] == ["roformer_base-half"]
    with pytest.raises(Failure, match="--archs must not be empty without --variant"):
        read_systems([], [], None)
    assert System("a", "b").name == "a-b" and System("a", "b").title == "a (b)" and System("a").name == "a"


@pytest.mark.parametrize(
    "variants,message",
    [
        (["half"], '--variant is "NAME ARCH FLAGS"'),
        (["half roformer_tiny rope-layout"], '--variant is "NAME ARCH FLAGS"'),
        (["half rofromer_tiny --rope-layout half"], "unknown architecture 'rofromer_tiny'"),
        (["half roformer_* --rope-layout half"], '--variant is "NAME ARCH FLAGS"'),
        (["other roformer_tiny --lr 1 --seed=2"], "--seed=2 does not go among the flags of fairseq-train"),
        (["x roformer_tiny --adam-betas '(0.9, 0.9)'"], "knows no quotes: write --flag=value"),
        (["x roformer_tiny --rope-base 500", "x roformer_tiny --rope-layout half"], "names 'x roformer_tiny' twice"),
    ],
)
def test_wrong_variants_are_named(variants, message):
    with pytest.raises(Failure) as refused:
        read_systems(["roformer_tiny"], variants, None)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_config_entries_are_the_options_of_reproduce_sh():
    config = {
        "recipe": "demo",
        "archs": ["roformer_tiny", "transformer_none_tiny"],
        "seeds": 3,
        "variants": ["half roformer_tiny --rope-layout half"],
        "max_update": "5",
        "flags": "--adam-betas '(0.9, 0.9)'",
    }
    words = ["demo", "--archs", "roformer_tiny transformer_none_tiny", "--seeds", "3", "--max-update", "5"]
    words += ["--variant", "half roformer_tiny --rope-layout half", "--", "--adam-betas", "(0.9, 0.9)"]
    assert parse_config(config) == parse(words)


@pytest.mark.parametrize(
    "entries,message",
    [
        ({}, "no recipe: give --config recipe=NAME; there are: demo "),
        ({"recipe": "demo", "arch": "roformer_tiny"}, "unknown config entry 'arch'; there are: recipe "),
        ({"recipe": "demo", "seeds": "1 2\n1"}, "--seeds names '1' twice"),
        ({"recipe": "demo", "archs": None}, "config entry 'archs' must be a value or a list of values, not None"),
        ({"recipe": "demo", "archs": {"a": "b"}}, "config entry 'archs' must be a value or a list of values"),
        ({"recipe": "demo", "max_update": 1.5}, "--max-update: must be a whole number, at least 1, not '1.5'"),
        ({"recipe": "demo", "variants": "half roformer_tiny --rope-layout half"}, "'variants' must be a list"),
        ({"recipe": "demo", "flags": "'"}, "config entry 'flags' cannot be split into words"),
    ],
)
def test_wrong_config_entries_are_named(entries, message):
    with pytest.raises(Failure) as refused:
        parse_config(entries)
    assert message in str(refused.value) and "\n" not in str(refused.value)


def test_a_sweep_whose_trainings_would_fail_is_refused(tmp_path):
    options = ["demo", "--out", str(tmp_path / "out"), "--max-update"]
    with pytest.raises(Failure, match="make 4 checkpoints, but 5 are to be averaged: choose --save-every 40 or less"):
        Sweep(parse([*options, "200"]))
    Sweep(parse([*options, "201"]))
    odd = [*options, "201", "--archs", "transformer_alibi_tiny", "--", "--rope-base", "500"]
    with pytest.raises(Failure, match=r"^transformer_alibi_tiny: .* --rope-base belongs to the encoding rope"):
        Sweep(parse(odd))
    (tmp_path / "own.toml").write_text('extends = "demo"\nvalid = "test"\n')
    with pytest.raises(Failure, match=r"the recipe own has two sets of one name, .*: test, test_long, test"):
        Sweep(parse([str(tmp_path / "own.toml"), *options[1:], "201"]))
    sweep = Sweep(parse([*options, "201", "--results", str(tmp_path)]))
    sweep.experiments[0].file.write_text("{")
    with pytest.raises(Failure, match=r"is not JSON, or damaged: remove it, and run scripts/reproduce\.sh again"):
        sweep.check_inputs()
    assert not (tmp_path / "out").exists()
    for name in ("out", "results", "report"):
        with pytest.raises(Failure, match=r"demo-roformer_tiny-seed1\.json is no folder: name another one"):
            Sweep(parse(["demo", f"--{name}", str(sweep.experiments[0].file)]))


def test_a_result_counts_by_its_flags_until_the_data_are_prepared(corpus, data, tmp_path):
    options = ["demo", "--archs", "roformer_tiny", "--seeds", "1 2", "--results", tmp_path]
    options += ["--max-update", "5", "--save-every", "1", "--data", corpus]
    fresh = Sweep(parse([*map(str, options), "--out", str(tmp_path / "fresh")]))
    (tmp_path / "prepared").mkdir()
    (tmp_path / "prepared/data").symlink_to(data)
    prepared = Sweep(parse([*map(str, options), "--out", str(tmp_path / "prepared")]))
    first, second = fresh.experiments
    settings = run("scripts/train.sh", "--print-settings", *first.train_options).stdout
    assert settings.startswith("train --arch roformer_tiny") and len(settings.splitlines()) == 1
    result = json.loads(next((ROOT / "results").glob("multi30k_cpu-roformer_multi30k-seed*.json")).read_text())
    test = result["tests"].popitem()[1]
    result["run"]["max_update"] = "5"
    result |= {"settings": f"data elsewhere\n{settings}", "tests": dict.fromkeys(fresh.subsets.values(), test)}
    write_json(first.file, result)
    assert fresh.unfinished() == [second] and prepared.unfinished() == prepared.experiments
    prepared.recipe = replace(prepared.recipe, prepare="")  # that of the data: they were not prepared as in the demo
    line = run("scripts/train.sh", "--print-settings", *prepared.experiments[0].train_options).stdout.splitlines()[0]
    write_json(first.file, {**result, "settings": f"{line}\n{settings}"})
    assert prepared.unfinished() == prepared.experiments[1:]
    prepared.raw = shutil.copytree(corpus, tmp_path / "other")
    assert prepared.unfinished() == prepared.experiments[1:]  # the same text
    for side in ("en", "de"):
        (prepared.raw / f"test.{side}").rename(tmp_path / "test")
        (prepared.raw / f"valid.{side}").rename(prepared.raw / f"test.{side}")
        (tmp_path / "test").rename(prepared.raw / f"valid.{side}")
    assert prepared.unfinished() == prepared.experiments
    (prepared.raw / "test.en").write_text("another text\n")
    assert prepared.unfinished() == prepared.experiments
    write_json(first.file, {**result, "tests": {}})
    assert fresh.unfinished() == fresh.experiments


def test_a_book_that_is_added_moved_or_gone_makes_another_text(tmp_path):
    for number, name in enumerate(("train/a", "train/b", "valid/c", "test/d", "test/e")):
        (tmp_path / "raw" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "raw" / name).write_text(f"A book with the number {number}.\n" * 40)
    prepare = 'task = "masked_lm"\nprepare = "--subwords bytes --workers 1"\n'
    (tmp_path / "own.toml").write_text(
        f'{prepare}train = "train"\nvalid = "valid"\ntests = ["test"]\narchs = ["roformer_mlm_tiny"]\n'
    )
    options = ["--data", tmp_path / "raw", "--out", tmp_path / "out"]
    flags = ["--max-update", 5, "--save-every", 1, "--seeds", 1]
    sweep = Sweep(parse([str(word) for word in (tmp_path / "own.toml", *options, *flags)]))
    run("scripts/prepare_text.sh", *sweep.prepare_options)

    def moved(name, to=None):
        path = sweep.raw / name
        other = sweep.raw / to if to else tmp_path / "away"
        path.rename(other)
        found = sweep._is_prepared_otherwise()
        other.rename(path)
        return found

    assert not sweep._is_prepared_otherwise()
    assert moved("train/b") and moved("test/e", "train/f") and moved("test/d", "test/f")  # now in another order
    assert not moved("test/e", "test/f") and not moved("valid/c", "valid/f")
    assert not moved("test", "gone")  # the text is not here, so the results count
    (sweep.raw / "valid/g").write_text("Another book.\n")
    assert sweep._is_prepared_otherwise()


def test_a_dry_run_shows_the_plan_and_wrong_entries_end_it_in_one_line(corpus, tmp_path):
    pytest.importorskip("snakemake")
    config = dict(recipe="demo", archs="roformer_tiny transformer_none_tiny", seeds="1 2", data=corpus, out="out")
    plan = planned(snakemake(tmp_path, "-n", "--cores", 2, **config))
    steps = {"prepare": 1, "train": 4, "average": 4, "score": 12, "collect": 4, "report": 1}
    assert plan == {**steps, "total": 26} and not (tmp_path / "out").exists()
    for cores, threads, at_a_time in ((16, 1, 4), (16, 5, 3)):  # no more than there are trainings
        options = ["-n", "--printshellcmds", "--cores", cores, "--set-threads", f"train={threads}"]
        said = snakemake(tmp_path, *options, **config).stdout
        assert said.count(f"RUNS_AT_A_TIME={at_a_time} ") == 4
    wrong = {
        "unknown architecture 'rofromer_tiny'": {**config, "archs": "rofromer_tiny"},
        "nowhere not found: give the folder with the raw text of demo": {**config, "data": "nowhere"},
        "out{n}: Snakemake takes braces for wildcards: rename the folder": {**config, "out": "out{n}"},
    }
    for message, entries in wrong.items():
        failed = snakemake(tmp_path, "-n", "--cores", 2, fails=True, **entries)
        assert "Traceback" not in failed.stderr
        assert failed.stderr.splitlines()[-1].startswith(f"Snakefile: error: {message}")


@pytest.mark.slow
@pytest.mark.slurm
@pytest.mark.skipif(not (shutil.which("sbatch") and SLURM.exists()), reason="no SLURM: tests/slurm.sh starts one")
def test_a_sweep_on_slurm_ends_past_a_run_that_fails(corpus, tmp_path):
    pytest.importorskip("snakemake_executor_plugin_slurm")
    profile = ["--profile", ROOT / "scripts/profiles/slurm", "--slurm-init-seconds-before-status-checks", "5"]
    variants = json.dumps(["broken roformer_tiny --train-subset nowhere"])
    config = dict(recipe="demo", archs="roformer_tiny", variants=variants, data=corpus, out="out")
    config.update(max_update=5, save_every=1, flags=" ".join([*SMALL, "--max-tokens", "600"]))
    done = snakemake(tmp_path, *profile, fails=True, **config)
    assert "not finished: roformer_tiny (broken), seed 1" in done.stderr.splitlines()[-1]
    # prepare, two trainings, and one job for all that follows on a training
    assert len(set(re.findall(r"has been submitted with SLURM jobid (\d+)", done.stderr))) == 4
    ended, broken = (
        json.loads((tmp_path / f"out/results/demo-roformer_tiny{variant}-seed1.json").read_text())
        for variant in ("", "-broken")
    )
    assert ended["training"]["updates"] == 5 and set(ended["tests"]) == {"test", "test_long", "valid"}
    assert "Dataset not found: nowhere" in broken["unfinished"]
    assert "did not finish" in (tmp_path / "out/report/report.md").read_text(encoding="utf-8")
