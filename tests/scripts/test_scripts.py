"""The scripts: what they keep, skip and refuse."""

import pickle
import shutil
import signal
import subprocess

import pytest
import torch

from ..commands import ENVIRONMENT, ROOT, SMALL, fairseq, one_line, prepare, run
from ..helpers import Malicious

pytestmark = pytest.mark.slow

SCRIPTS = sorted(path for path in (ROOT / "scripts").glob("*.sh") if path.name != "environment.sh")


def test_steps_that_were_done_are_skipped_and_changed_settings_redo_them(corpus, data, trained, tmp_path):
    assert "done before" in prepare(corpus, data).stderr
    assert "done before" not in prepare(corpus, tmp_path / "a", "--merges", 50).stderr
    again = prepare(corpus, tmp_path / "a", "--merges", 60).stderr
    assert again.count("done before") == 2  # the copy and the tokens do not depend on the merges
    options = ["--data", data, "--arch", "roformer_tiny", "--recipe", "demo", "--out", trained]
    rest = ["--max-update", 12, "--save-every", 2, "--", *SMALL, "--max-tokens", 600]
    assert "done before" in run("scripts/train.sh", *options, *rest).stderr
    (trained / ".stamps/train.json").unlink()  # as a kill behind the last update leaves it
    log = (trained / "train.log").read_bytes()
    assert "done before" not in run("scripts/train.sh", *options, *rest).stderr
    assert (trained / "train.log").read_bytes() == log  # not an update more


@pytest.mark.parametrize("script", [path.name for path in SCRIPTS])
def test_help_and_unknown_options(script):
    assert f"usage: scripts/{script}" in run(f"scripts/{script}", "--help").stdout.replace("Usage", "usage")
    if script not in ("test.sh", "demo.sh"):  # these pass options on
        failed = run(f"scripts/{script}", "--nonsense", fails=True)
        assert failed.returncode == 2
        one_line(failed, f"{script}: error: ", f"(see {script} --help)")


@pytest.mark.parametrize("path", ["", ":", "::/nowhere:"])
def test_modules_of_the_current_folder_are_not_imported_whatever_pythonpath_is(tmp_path, path):
    for name in ("argparse", "json", "tqdm"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('harmed')")
    environ = {**ENVIRONMENT, "PYTHONPATH": path}
    done = subprocess.run([ROOT / "scripts/average.sh", "--help"], cwd=tmp_path, env=environ, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"") and b"usage: scripts/average.sh" in done.stdout


def test_an_environment_of_the_users_own_changes_nothing(tmp_path):
    """CDPATH makes cd print, and go elsewhere; daemons have closed streams; an empty variable is no folder."""
    (tmp_path / "scripts").mkdir()
    environ = {**ENVIRONMENT, "CDPATH": f".:{tmp_path}"}
    called = "scripts/report.sh --results results/demo-roformer_tiny-seed1.json --out"
    for closed in (">&-", "<&- 2>&-"):
        words = ["bash", "-c", f"{called} {tmp_path}/out {closed}"]
        done = subprocess.run(words, cwd=ROOT, env=environ, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
    one_line(run("bash", "-c", f"{called} ''", fails=True), "argument --out: must not be empty")


def test_an_installation_is_done_once(tmp_path):
    """With an environment whose pip installs nothing."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").write_text("#!/bin/sh\n")
    (tmp_path / "bin/python").chmod(0o755)

    def install(**more):
        environ = {name: value for name, value in ENVIRONMENT.items() if name not in ("EXTRAS", "PYTHON")}
        environ.update(VENV=str(tmp_path), **more)
        done = subprocess.run([ROOT / "scripts/install.sh"], env=environ, capture_output=True, text=True)
        assert done.returncode == 0
        return "installed before" in done.stderr

    assert [install(), install(), install(EXTRAS="docs"), install(EXTRAS="docs")] == [False, True, False, True]
    assert install(), "with more than is needed"
    stamp = (tmp_path / "installed").read_text()
    for other, done in ((tmp_path, True), (tmp_path / "gone", False)):  # which another clone has made
        (tmp_path / "installed").write_text(stamp.replace(str(ROOT), str(other)))
        assert install() == done


def test_wrong_calls_give_one_line(data, trained, tmp_path):
    train = ["scripts/train.sh", "--data", data, "--out", tmp_path / "run"]
    one_line(run(*train, "--arch", "rofromer_base", fails=True), "unknown architecture 'rofromer_base'")
    for name, sign in (("${x}", "${"), ("12:30", ":")):
        odd = [*train, "--arch", "roformer_tiny", "--out", tmp_path / name]
        one_line(run(*odd, fails=True), f"fairseq does not take '{sign}' for a part of")
    unprepared = [*train, "--arch", "roformer_tiny", "--data", tmp_path / "nowhere"]
    one_line(run(*unprepared, fails=True), "has no prepared data")
    assert not (tmp_path / "run").exists()
    average = ["scripts/average.sh", "--run", trained, "--data", data, "--last", 99]
    one_line(run(*average, fails=True), "99 are to be averaged")
    one_line(run("scripts/translate.sh", tmp_path, fails=True, input="x\n"), "no such checkpoint")
    one_line(run("scripts/reproduce.sh", "demo", "--data", tmp_path / "nowhere", fails=True), "not found")


def test_a_missing_tool_is_named_with_the_remedy(corpus, tmp_path):
    bare = {"PATH": "/usr/bin:/bin", "VENV": str(tmp_path / "none")}
    command = ["bash", "scripts/score.sh", "--run", "x", "--data", "y"]
    done = subprocess.run(command, cwd=ROOT, env=bare, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "not found: run scripts/install.sh" in done.stderr


def test_translations_go_into_a_pipe_that_is_closed_and_to_a_full_disk(trained, tmp_path):
    (tmp_path / "text").write_text("A man sees a dog .\n" * 600)
    translate = f"set -o pipefail; scripts/translate.sh {trained} --beam 1"
    piped = run("bash", "-c", f"{translate} <{tmp_path}/text | head -n 1", fails=True)
    assert (piped.returncode, piped.stderr) == (128 + signal.SIGPIPE, "") and piped.stdout.count("\n") == 1
    failed = run("bash", "-c", f"{translate} <{tmp_path}/text >/dev/full", fails=True)
    assert failed.stderr == "translate.sh: error: the output: No space left on device: make room\n"


@pytest.mark.parametrize("kind", ["truncated", "malicious"])
def test_bad_checkpoints_are_refused_by_the_scripts(data, trained, tmp_path, kind):
    copy = tmp_path / "run"
    shutil.copytree(trained, copy)
    good = (trained / "checkpoint.pt").read_bytes()
    bad = good[: len(good) // 2] if kind == "truncated" else pickle.dumps({"model": Malicious()})
    (copy / "checkpoint.pt").write_bytes(bad)
    shutil.rmtree(copy / "scores", ignore_errors=True)
    for command in (["scripts/score.sh", "--run", copy, "--data", data], ["scripts/translate.sh", copy]):
        one_line(run(*command, input="x\n", fails=True), "checkpoint.pt: ")
    assert not (copy / "scores/test.json").exists() and not (ROOT / "harmed").exists()


@pytest.mark.skipif(torch.__version__ < "2.6", reason="before torch 2.6 fairseq's own loading is not safe")
def test_fairseq_itself_refuses_a_malicious_checkpoint(data, tmp_path):
    torch.save({"model": Malicious()}, tmp_path / "bad.pt")
    failed = fairseq("generate", data, "--path", tmp_path / "bad.pt", cwd=tmp_path, fails=True)
    assert "Weights only load failed" in failed.stderr
    assert not (tmp_path / "harmed").exists()


def test_what_belongs_together_stays_together(corpus, data, trained, tmp_path):
    other = tmp_path / "other"
    prepare(corpus, other, "--merges", 30)
    for script in ("average.sh", "score.sh"):
        failed = run(f"scripts/{script}", "--run", trained, "--data", other, fails=True)
        one_line(failed, "was trained on other data")
    (trained / "checkpoint.pt").unlink()  # the stamp alone does not make a step done
    run("scripts/average.sh", "--run", trained, "--data", data)
    assert (trained / "checkpoint.pt").exists()
