"""What a sweep plans: its options, its jobs. How one ends is in test_runs.py."""

import json
import os
import re
import shutil
import time
from pathlib import Path

import pytest

from pipeline.command import Failure
from pipeline.experiment import System, read_systems
from pipeline.files import write_json
from pipeline.reproduce import main, parse, words_of_config
from pipeline.steps import stamp_path
from pipeline.sweep import Sweep

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


def test_systems_are_architectures_and_variants_which_are_refused_if_they_are_wrong():
    half = System("roformer_base", "half", ("--rope-layout", "half"))
    assert (half.name, half.title) == ("roformer_base-half", "roformer_base (half)")
    systems = read_systems(["roformer_t*"], ["half roformer_base --rope-layout half"], None)
    assert systems == [System("roformer_tiny"), half]
    for variants, named in (
        (["half"], "NAME ARCH FLAGS"),
        (["half rofromer_tiny --rope-layout half"], "'rofromer_tiny'"),
        (["other roformer_tiny --lr 1 --seed=2"], "--seed"),
        (["x roformer_tiny --rope-base 500", "x roformer_tiny --rope-layout half"], "twice"),
    ):
        with pytest.raises(Failure, match=named):
            read_systems(["roformer_tiny"], variants, None)


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
    assert parse(words_of_config(config)) == parse(words)


def test_a_sweep_whose_trainings_would_fail_is_refused(tmp_path):
    options = ["demo", "--out", str(tmp_path / "out"), "--max-update"]
    with pytest.raises(Failure, match="5 are to be averaged"):
        Sweep(parse([*options, "200"]))
    with pytest.raises(Failure, match="nothing to train"):
        Sweep(parse([*options, "201", "--archs", ""]))
    sweep = Sweep(parse([*options, "201", "--results", str(tmp_path)]))
    sweep.experiments[0].file.write_text("{")
    with pytest.raises(Failure, match=r": remove it, and run scripts/reproduce\.sh again"):
        sweep.experiments[0].is_finished()
    assert not (tmp_path / "out").exists()


def test_a_result_counts_by_its_flags_until_the_data_are_prepared(corpus, data, tmp_path):
    (tmp_path / "own.toml").write_text('extends = "demo"\n[prepare]\nmerges = 100\nworkers = 1\n')
    text = shutil.copytree(corpus, tmp_path / "text")
    options = [tmp_path / "own.toml", "--archs", "roformer_tiny", "--seeds", "1 2", "--results", tmp_path]
    options += ["--max-update", "5", "--save-every", "1", "--data", text]
    fresh, prepared = (
        Sweep(parse([*map(str, options), "--out", str(tmp_path / out)])) for out in ("fresh", "prepared")
    )
    first, second = fresh.experiments
    assert fresh.unfinished() == [first, second] and len(first.training().settings.splitlines()) == 1
    result = json.loads(next((ROOT / "results").glob("multi30k_cpu-roformer_multi30k-seed*.json")).read_text())
    test = result["tests"].popitem()[1]
    result["run"]["max_update"] = "5"
    result["tests"] = dict.fromkeys(fresh.subsets.values(), test)
    elsewhere = {**result, "settings": f"data elsewhere\n{first.training().settings}"}
    write_json(first.file, elsewhere)
    assert fresh.unfinished() == [second]
    main([*map(str, options), "--out", str(fresh.out), "--only", "train", "--run", "roformer_tiny/seed1"])
    assert not fresh.out.exists()  # the Snakefile plans more than there is to do if it cannot tell
    later = time.time() + 3600
    os.utime(text / "test.en", (later, later))  # by a clock that is ahead
    prepared.prepare()
    assert prepared.unfinished() == prepared.experiments  # the result is of other data
    write_json(first.file, {**result, "settings": prepared.experiments[0].training().settings})
    assert prepared.unfinished() == prepared.experiments[1:]
    prepared.raw = corpus  # perhaps other text, however old
    assert prepared.unfinished() == prepared.experiments
    prepared.raw = text
    (text / "out").mkdir()  # anything else beside the text
    assert prepared.unfinished() == prepared.experiments[1:]
    os.utime(prepared.raw / "test.en", (later + 1, later + 1))
    assert prepared.unfinished() == prepared.experiments  # the text is newer than the data
    tests = {name: {**test, "settings": "beam 4, lenpen 1.0"} for name in fresh.subsets.values()}
    for others in ({}, tests):  # without scores, or with those of another search
        write_json(first.file, {**elsewhere, "tests": others})
        assert fresh.unfinished() == fresh.experiments

    settings = prepared.experiments[0].training().settings
    for lang in ("en", "de"):
        lines = (corpus / f"test.{lang}").read_text(encoding="utf-8").splitlines(keepends=True)
        (prepared.raw / f"news.{lang}").write_text("".join(lines[:20]), encoding="utf-8")
    with (tmp_path / "own.toml").open("a") as recipe:
        recipe.write('[data]\ntests = ["test", "news", "test_long"]\n')
    joined = Sweep(parse([*map(str, [*options, "--out", tmp_path / "prepared", "--data", prepared.raw])]))
    joined.prepare()
    write_json(first.file, {**result, "settings": settings})
    assert joined.unfinished() == joined.experiments  # the set has no scores
    write_json(first.file, {**result, "settings": settings, "tests": {**result["tests"], "news": test}})
    assert joined.unfinished() == joined.experiments[1:]


def test_a_dry_run_shows_the_plan_and_wrong_entries_end_it_in_one_line(corpus, tmp_path):
    pytest.importorskip("snakemake")
    config = dict(recipe="demo", archs="roformer_tiny transformer_none_tiny", seeds="1 2", data=corpus, out="out")
    done = snakemake(tmp_path, "-n", "--cores", 2, **config)
    assert planned(done) == {"prepare": 1, "train": 4, "finish": 4, "report": 1, "total": 10}
    assert not (tmp_path / "out").exists()
    failed = snakemake(tmp_path, "-n", "--cores", 2, fails=True, **{**config, "archs": "rofromer_tiny"})
    assert failed.stderr.splitlines()[-1].startswith("Snakefile: error: unknown architecture 'rofromer_tiny'")


def test_a_run_is_planned_again_if_its_files_are_there_but_do_not_count(corpus, tmp_path):
    """One that failed, and one that was trained with other settings."""
    pytest.importorskip("snakemake")
    result = json.loads(next((ROOT / "results").glob("multi30k_cpu-roformer_multi30k-seed*.json")).read_text())
    for seed, entries in ((1, {"tests": {}, "unfinished": "failed"}), (2, {})):
        write_json(tmp_path / f"out/results/demo-roformer_tiny-seed{seed}.json", {**result, **entries})
        write_json(stamp_path(tmp_path / f"out/roformer_tiny/seed{seed}", "train"), {})
    done = snakemake(tmp_path, "-n", recipe="demo", archs="roformer_tiny", seeds="1 2", data=corpus, out="out")
    assert planned(done) == {"prepare": 1, "train": 2, "finish": 2, "report": 1, "total": 6}


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
