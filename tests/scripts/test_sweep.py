"""A sweep of architectures, variants and seeds: several at a time, killed and continued, never twice."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from ..commands import ENVIRONMENT, ROOT, SMALL, one_line, run

UPDATES = ["--max-update", 250, "--save-every", 50]
SYSTEMS = ["--archs", "transformer_none_tiny", "--variant", "half roformer_tiny --rope-layout half"]
FLAGS = ["--", *SMALL, "--max-tokens", "300", "--disable-validation"]
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


def hear_signals():
    """A shell cannot trap what was ignored when it began, as under nohup."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture(scope="module")
def swept(raw, tmp_path_factory):
    """A sweep that was killed while two runs trained, what it left then, and that was called again."""
    out = tmp_path_factory.mktemp("sweep") / "out"
    words = [str(word) for word in command(raw, out, "--jobs", 2)]
    running = subprocess.Popen(
        words,
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_signals,
    )
    while running.poll() is None and len({path.parts[-4] for path in out.glob("*/seed1/checkpoints/*_50.pt")}) < 2:
        time.sleep(0.1)
    os.kill(running.pid, signal.SIGTERM)
    _, said = running.communicate(timeout=120)
    left = {"exit": running.returncode, "said": said, "running": processes(out), "results": results(out / "results")}
    left["report"] = (out / "report/report.md").read_text(encoding="utf-8")
    again = run(*words)
    return out, left, again


def test_a_killed_sweep_leaves_no_process_and_says_what_was_cut(swept):
    _, left, _ = swept
    assert left["exit"] == 143 and left["running"] == []
    assert "ended by a signal (TERM): call again to go on" in left["said"]
    assert sorted(left["results"]) == sorted(f"{name}-seed1" for name in NAMES)
    for result in left["results"].values():
        assert result["unfinished"] == "ended by a signal (TERM)" and result["tests"] == {}
    assert "Runs that did not finish" in left["report"]


def test_it_goes_on_from_the_last_checkpoints(swept):
    out, _, _ = swept
    found = results(out / "results")
    assert sorted(found) == sorted(f"{name}-seed1" for name in NAMES)
    for result in found.values():
        assert "unfinished" not in result and result["training"]["updates"] == 250
        assert list(result["tests"]) == TESTS and result["tests"]["val"]["subset"] == "valid"
        assert [result["tests"][name]["sentences"] for name in TESTS] == [21, 10, 5, 21]
    for name in NAMES:
        log = (out / name / "seed1/train.log").read_text(encoding="utf-8")
        assert "Loaded checkpoint" in log
    assert "did not finish" not in (out / "report/report.md").read_text(encoding="utf-8")


def test_two_run_at_a_time_with_a_part_of_the_cores_each(swept):
    out, left, again = swept
    assert left["said"].count(": begins (log: ") == 2
    for result in results(out / "results").values():
        assert result["run"]["jobs"] == "2" and int(result["run"]["threads"]) <= max(1, os.cpu_count() // 2)
    assert again.stderr.count(": finished, sacreBLEU test_2016_flickr ") == 2


def test_a_variant_has_its_flags_and_its_name(swept):
    out, _, again = swept
    plain, half = (results(out / "results")[f"{name}-seed1"] for name in NAMES)
    flags = plain["run"]["flags"].replace(NAMES[0], "roformer_tiny")
    assert half["variant"] == "half" and half["run"]["flags"] == flags + " --rope-layout half"
    assert "roformer_tiny (half) seed 1 test_2016_flickr_x4" in again.stdout


def test_what_is_finished_is_not_run_again_on_another_machine(swept, raw, tmp_path):
    out, _, again = swept
    shutil.copytree(out / "results", tmp_path / "results")
    elsewhere = command(raw, tmp_path / "out", "--results", tmp_path / "results", "--report", tmp_path / "report")
    done = run(*elsewhere)
    assert done.stderr.count("finished before") == 2 and not (tmp_path / "out" / NAMES[0]).exists()
    assert (
        done.stdout.split("\nRecipe ")[1].split("Report: ")[0]
        == again.stdout.split("\nRecipe ")[1].split("Report: ")[0]
    )
    assert (tmp_path / "report/report.html").is_file()


def test_a_closed_terminal_ends_the_runs_and_costs_no_finished_result(swept, raw, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(swept[0], out)
    more = [str(word) for word in [*command(raw, out)[:6], "--max-update", 10**6, *SYSTEMS, *FLAGS]]
    running = subprocess.Popen(
        more, cwd=ROOT, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True, preexec_fn=hear_signals
    )
    record = out / NAMES[0] / "seed1/run.json"
    while running.poll() is None and not (record.exists() and '"1000000"' in record.read_text(encoding="utf-8")):
        time.sleep(0.1)
    os.kill(running.pid, signal.SIGHUP)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 129 and "ended by a signal (HUP)" in said and processes(out) == []
    assert results(out / "results") == results(swept[0] / "results")


def test_a_result_of_other_settings_is_set_aside(swept, raw, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(swept[0], out)
    before = (out / f"results/multi30k-{NAMES[0]}-seed1.json").read_bytes()
    words = ["scripts/reproduce.sh", "multi30k", "--data", raw, "--out", out, "--archs", NAMES[0]]
    said = run(*words, "--max-update", 300, "--save-every", 50, *FLAGS).stderr
    assert f"{NAMES[0]}-seed1.json is of a run with other settings: it moves to" in said
    (old,) = (out / "results").glob("*.old-*")
    assert old.read_bytes() == before and results(out / "results")[f"{NAMES[0]}-seed1"]["training"]["updates"] == 300


def test_a_sweep_of_which_all_fails_has_a_report_that_says_so(swept, raw, tmp_path):
    """Three systems for two places: the third waits for one."""
    archs = [f"transformer_{name}_tiny" for name in ("alibi", "learned", "shaw")]
    options = ["--results", tmp_path / "results", "--report", tmp_path / "report", "--archs", " ".join(archs)]
    options += ["--jobs", 2]
    words = ["scripts/reproduce.sh", "multi30k", "--data", raw, "--out", swept[0], *UPDATES, *options, *FLAGS]
    failed = run(*words, "--rope-base", 500, fails=True)
    said = failed.stderr.splitlines()
    assert said[-1].endswith(f"error: no run succeeded: {' '.join(f'{arch} seed 1' for arch in archs)}")
    begun, ended = ([i for i, line in enumerate(said) if word in line] for word in (": begins ", ": not finished"))
    assert len(begun) == len(ended) == 3 and begun[1] < ended[0] < begun[2]
    report = (tmp_path / "report/report.md").read_text(encoding="utf-8").split("### Runs that did not finish")[1]
    assert report.count("--rope-base belongs to the encoding rope") == 3


def test_a_recipe_that_shares_data_takes_them_from_the_same_folder(tmp_path):
    failed = run("scripts/reproduce.sh", "multi30k_cpu", "--out", tmp_path / "out", fails=True)
    one_line(failed, "data/multi30k not found: give the folder with the raw text of multi30k as --data FOLDER")


@pytest.mark.parametrize(
    "options,message",
    [
        (["--variant", "half"], '--variant is "NAME ARCH FLAGS"'),
        (["--variant", "half roformer_tiny rope-layout"], '--variant is "NAME ARCH FLAGS"'),
        (["--variant", "half rofromer_tiny --rope-layout half"], "unknown architecture 'rofromer_tiny'"),
        (["--variant", "half roformer_* --rope-layout half"], '--variant is "NAME ARCH FLAGS"'),
        (["--variant", "other roformer_tiny --lr 1 --seed=2"], "--seed=2 does not go among the flags of fairseq-train"),
        (["--variant", "x roformer_tiny --adam-betas '(0.9, 0.9)'"], "knows no quotes: write --flag=value"),
        (
            ["--variant", "x roformer_tiny --rope-base 500", "--variant", "x roformer_tiny --rope-layout half"],
            "--variant names 'x roformer_tiny' twice",
        ),
        (["--seeds", "1 2 1"], "--seeds names '1' twice"),
        (["--baseline", "*_tiny"], "--baseline must be one architecture, not '*_tiny'"),
        (["--jobs", "0"], "--jobs must be at least 1"),
        (["--jobs", "many"], "--jobs must be a whole number"),
    ],
)
def test_wrong_options_are_named_in_one_line(tmp_path, options, message):
    out = tmp_path / "out"
    one_line(run("scripts/reproduce.sh", "demo", "--out", out, *options, fails=True), message)
    assert not out.exists()


def test_two_sweeps_at_once_share_a_folder(corpus, tmp_path):
    words = ["scripts/reproduce.sh", "demo", "--data", str(corpus), "--out", str(tmp_path / "out")]
    few = ["--max-update", "10", "--save-every", "2", *FLAGS]
    both = [
        subprocess.Popen([*words, "--archs", arch, *few], cwd=ROOT, env=ENVIRONMENT, stderr=subprocess.PIPE)
        for arch in ("transformer_none_tiny", "roformer_tiny")
    ]
    said = [sweep.communicate(timeout=600)[1].decode() for sweep in both]
    assert [sweep.returncode for sweep in both] == [0, 0], said
    assert len(results(tmp_path / "out/results")) == 2
    assert sum("[prepare] binarize: done before with the same settings" in text for text in said) == 1, said
