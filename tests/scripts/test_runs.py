"""The runs of a recipe: killed and continued, failed, finished elsewhere, never twice."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from ..commands import ROOT, SMALL, parameters, run, start
from ..helpers import same
from .test_sweeps import planned, snakemake

pytestmark = pytest.mark.slow

UPDATES = ["--max-update", 60, "--save-every", 10]
SYSTEMS = ["--archs", "transformer_none_tiny", "--variant", "half roformer_tiny --rope-layout half"]
FLAGS = ["--", *SMALL, "--max-tokens", "300", "--max-target-positions", "80", "--disable-validation"]
NOWHERE = ["--train-subset", "nowhere"]
"""What only the training finds to be wrong."""
SWEEP = dict(max_update=60, save_every=10, flags=" ".join(FLAGS[1:]))
NAMES = ["transformer_none_tiny", "roformer_tiny-half"]
TESTS = ["test_2016_flickr", "test_2016_flickr_x2", "test_2016_flickr_x4", "val"]


@pytest.fixture(scope="module")
def raw(corpus, tmp_path_factory):
    """The small corpus under Multi30k's names."""
    folder = tmp_path_factory.mktemp("raw")
    for ours, theirs in (("train", "train"), ("valid", "val"), ("test", TESTS[0])):
        for lang in ("en", "de"):
            shutil.copy(corpus / f"{ours}.{lang}", folder / f"{theirs}.{lang}")
    return folder


def command(raw, out, *options):
    return ["scripts/reproduce.sh", "multi30k", "--data", raw, "--out", out, *UPDATES, *SYSTEMS, *options, *FLAGS]


def results(folder):
    return {path.stem[9:]: json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))}


def processes(text):
    """Command lines of running processes that name `text`."""
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    return [line for line in listed.splitlines() if str(text) in line]


@pytest.fixture(scope="module")
def killed(raw, tmp_path_factory):
    """A recipe whose first run was ended by SIGTERM, what that left, and the same command once more."""
    out = tmp_path_factory.mktemp("runs") / "out"
    words = command(raw, out)
    running = start(*words)
    while running.poll() is None and not list(out.glob("*/seed1/checkpoints/*_20.pt")):
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGTERM)
    _, said = running.communicate(timeout=120)
    left = {"exit": running.returncode, "said": said, "running": processes(out), "results": results(out / "results")}
    left["report"] = (out / "report/report.md").read_text(encoding="utf-8")
    return out, left, run(*words)


def test_a_signal_leaves_no_process_and_says_what_was_cut(killed):
    _, left, _ = killed
    assert left["exit"] == -signal.SIGTERM and left["running"] == []
    assert "ended by a signal (TERM): call again to go on" in left["said"]
    assert list(left["results"]) == [f"{NAMES[0]}-seed1"]
    (result,) = left["results"].values()
    assert result["unfinished"] == "ended by a signal (TERM)" and result["tests"] == {}
    assert "Runs that did not finish" in left["report"]


def test_it_goes_on_from_the_last_checkpoint(killed):
    out, _, again = killed
    collected = results(out / "results")
    assert sorted(collected) == sorted(f"{name}-seed1" for name in NAMES)
    for result in collected.values():
        assert "unfinished" not in result and result["training"]["updates"] == 60
        assert list(result["tests"]) == TESTS and result["tests"]["val"]["subset"] == "valid"
        assert [result["tests"][name]["sentences"] for name in TESTS] == [21, 10, 5, 21]
    assert "Loaded checkpoint" in (out / NAMES[0] / "seed1/train.log").read_text(encoding="utf-8")
    assert "did not finish" not in (out / "report/report.md").read_text(encoding="utf-8")
    assert again.stderr.count(": finished, sacreBLEU test_2016_flickr ") == 2
    assert "To translate a sentence" in again.stdout


def test_a_variant_has_its_flags_and_its_name(killed):
    out, _, again = killed
    plain, half = (results(out / "results")[f"{name}-seed1"] for name in NAMES)
    flags = plain["run"]["flags"].replace(NAMES[0], "roformer_tiny")
    assert half["variant"] == "half" and half["run"]["flags"] == flags + " --rope-layout half"
    _, _, table = again.stdout.partition("\nroformer_tiny (half), seed 1\n")
    assert "  test_2016_flickr_x4 " in table


def test_what_is_finished_is_not_run_again_on_another_machine(killed, raw, tmp_path):
    out, _, again = killed
    shutil.copytree(out / "results", tmp_path / "results")
    elsewhere = command(raw, tmp_path / "out", "--results", tmp_path / "results", "--report", tmp_path / "report")
    done = run(*elsewhere)
    assert done.stderr.count("finished before") == 2 and not (tmp_path / "out" / NAMES[0]).exists()
    tables = [text.split("\nRecipe ")[1].split("Report: ")[0] for text in (done.stdout, again.stdout)]
    assert tables[0] == tables[1] and (tmp_path / "report/report.html").is_file()


@pytest.mark.long
def test_runs_that_fail_are_named_in_the_report_and_set_no_result_aside_as_a_finished_one_does(killed, raw, tmp_path):
    out, archs = tmp_path / "out", ["transformer_alibi_tiny", NAMES[0]]
    shutil.copytree(killed[0], out)
    file = out / f"results/multi30k-{NAMES[0]}-seed1.json"
    before = file.read_bytes()
    words = ["scripts/reproduce.sh", "multi30k", "--data", raw, "--out", out, "--save-every", 10]
    failed = run(*words, "--archs", "\n".join(archs), "--max-update", 80, *FLAGS, *NOWHERE, fails=True)
    names = "; ".join(f"{arch}, seed 1" for arch in archs)
    assert failed.stderr.splitlines()[-1].endswith(f"error: no run succeeded: {names}")
    report = (out / "report/report.md").read_text(encoding="utf-8").split("Runs that did not finish")[1]
    assert report.count("Dataset not found: nowhere") == 1 and file.read_bytes() == before
    said = run(*words, "--archs", NAMES[0], "--max-update", 70, *FLAGS).stderr
    assert f"{NAMES[0]}-seed1.json is of a run with other settings: it moves to" in said
    (old,) = (out / "results").glob("*.old-*")
    assert old.read_bytes() == before and results(out / "results")[f"{NAMES[0]}-seed1"]["training"]["updates"] == 70


@pytest.mark.long
def test_two_calls_at_once_share_a_folder(corpus, tmp_path):
    words = ["scripts/reproduce.sh", "demo", "--data", corpus, "--out", tmp_path / "out", "--max-update", 5]
    archs = ("transformer_none_tiny", "roformer_tiny")
    both = [start(*words, "--archs", arch, "--save-every", 1, *FLAGS) for arch in archs]
    said = [call.communicate(timeout=600)[1] for call in both]
    assert [call.returncode for call in both] == [0, 0], said
    assert len(results(tmp_path / "out/results")) == 2
    assert sum("[reproduce] binarize: done before with the same settings" in text for text in said) == 1, said


@pytest.mark.long
def test_a_killed_sweep_ends_in_the_figures_of_reproduce_sh(killed, raw, tmp_path):
    """On Snakemake. It takes a result from elsewhere, is killed in one run, and goes past another one that fails."""
    pytest.importorskip("snakemake")
    out = tmp_path / "out"
    shutil.copytree(killed[0] / "data", out / "data")
    (out / "results").mkdir()
    shutil.copy(killed[0] / f"results/multi30k-{NAMES[0]}-seed1.json", out / "results")
    variants = json.dumps([SYSTEMS[3], "broken roformer_tiny --train-subset nowhere"])
    config = dict(recipe="multi30k", data=raw, out=out, archs=NAMES[0], variants=variants, **SWEEP)
    words = ["python", "-m", "snakemake", "-s", ROOT / "scripts/Snakefile", "--cores", 2, "--config"]
    words += [f"{name}={value}" for name, value in config.items()]
    for checkpoint, status in (("20", -signal.SIGKILL), ("", 1)):
        log = out / f"until{checkpoint}.log"
        with log.open("w") as file:
            running = start(*words, cwd=out, stdout=file, stderr=file)
        while running.poll() is None:
            time.sleep(0.02)
            if list(out.glob(f"{NAMES[1]}/seed1/checkpoints/*_{checkpoint}.pt")):
                os.killpg(running.pid, signal.SIGKILL)
        assert running.returncode == status, log.read_text()
    assert "Loaded checkpoint" in (out / NAMES[1] / "seed1/train.log").read_text() and not (out / NAMES[0]).exists()
    ours, theirs = (results(folder / "results") for folder in (out, killed[0]))
    assert ours[f"{NAMES[0]}-seed1"] == theirs[f"{NAMES[0]}-seed1"]
    for entry in ("tests", "settings"):
        assert ours[f"{NAMES[1]}-seed1"][entry] == theirs[f"{NAMES[1]}-seed1"][entry]
    assert same(*(parameters(folder / NAMES[1] / "seed1/checkpoint.pt") for folder in (out, killed[0])))
    assert "not finished: roformer_tiny (broken), seed 1" in log.read_text()
    report = (out / "report/report.md").read_text(encoding="utf-8")
    assert "Dataset not found: nowhere" in report.split("Runs that did not finish")[1]
    elsewhere = dict(data="nowhere", out="out", results=out / "results", **SWEEP)
    plan = planned(snakemake(tmp_path, "-n", recipe="multi30k", archs=NAMES[0], **elsewhere))
    assert plan == {"report": 1, "total": 1}
