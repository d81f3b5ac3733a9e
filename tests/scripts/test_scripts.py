"""The scripts: what they keep, skip and refuse."""

import pytest

from ..commands import ENVIRONMENT, ROOT, SMALL, one_line, prepare, run

pytestmark = pytest.mark.slow


def test_steps_that_were_done_are_skipped_and_changed_settings_redo_them(corpus, data, trained, tmp_path):
    assert "done before" in prepare(corpus, data).stderr
    assert "done before" not in prepare(corpus, tmp_path / "a", "--merges", 50).stderr
    again = prepare(corpus, tmp_path / "a", "--merges", 60).stderr
    assert again.count("done before") == 2  # the copy and the tokens do not depend on the merges
    options = ["--data", data, "--arch", "roformer_tiny", "--recipe", "demo", "--out", trained]
    rest = ["--max-update", 12, "--save-every", 2, "--", *SMALL, "--max-tokens", 600]
    assert "done before" in run("scripts/train.sh", *options, *rest).stderr


def test_every_script_has_help():
    for path in (ROOT / "scripts").glob("*.sh"):
        if path.name != "environment.sh":
            assert f"scripts/{path.name}" in run(path, "--help").stdout


def test_an_environment_of_the_users_own_changes_nothing(tmp_path):
    """An empty entry of PYTHONPATH is the current folder; CDPATH makes cd print, and go elsewhere."""
    (tmp_path / "scripts").mkdir()
    for name in ("argparse", "json", "tqdm"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('harmed')")
    environ = {**ENVIRONMENT, "CDPATH": f".:{tmp_path}", "PYTHONPATH": "::/nowhere:"}
    for cwd, script in ((ROOT, "scripts/average.sh"), (tmp_path, ROOT / "scripts/average.sh")):
        done = run("bash", "-c", f"{script} --help", cwd=cwd, env=environ)
        assert "usage: scripts/average.sh" in done.stdout


def test_an_installation_is_done_once(tmp_path):
    """With an environment whose pip installs nothing."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").write_text("#!/bin/sh\n")
    (tmp_path / "bin/python").chmod(0o755)

    def install(**more):
        environ = {name: value for name, value in ENVIRONMENT.items() if name not in ("EXTRAS", "PYTHON")}
        environ.update(VENV=str(tmp_path), **more)
        return "installed before" in run("scripts/install.sh", env=environ).stderr

    assert [install(), install(), install(EXTRAS="docs"), install(EXTRAS="docs")] == [False, True, False, True]
    assert install(), "with more than is needed"
    stamp = (tmp_path / "installed").read_text()
    for other, done in ((tmp_path, True), (tmp_path / "gone", False)):  # which another clone has made
        (tmp_path / "installed").write_text(stamp.replace(str(ROOT), str(other)))
        assert install() == done


def test_wrong_calls_give_one_line(data, trained, tmp_path):
    train = ["scripts/train.sh", "--data", data, "--out", tmp_path / "run"]
    for words, named in (
        (["scripts/average.sh", "--run", trained, "--data", data, "--nonsense"], "--nonsense"),
        ([*train, "--arch", "rofromer_base"], "'rofromer_base'"),
        ([*train, "--arch", "roformer_tiny", "--out", tmp_path / "12:30"], "':'"),
        (["scripts/translate.sh", tmp_path], "no such checkpoint"),
        (["scripts/reproduce.sh", "demo", "--data", tmp_path / "nowhere"], "not found"),
    ):
        one_line(run(*words, fails=True, input="x\n"), named)
    assert not (tmp_path / "run").exists()
    bare = {"PATH": "/usr/bin:/bin", "VENV": str(tmp_path / "none")}
    failed = run("bash", "scripts/score.sh", "--run", "x", "--data", "y", env=bare, fails=True)
    one_line(failed, "scripts/install.sh")


def test_what_belongs_together_stays_together(corpus, data, trained, tmp_path):
    other = tmp_path / "other"
    prepare(corpus, other, "--merges", 30)
    for script in ("average.sh", "score.sh"):
        failed = run(f"scripts/{script}", "--run", trained, "--data", other, fails=True)
        one_line(failed, "was trained on other data")
    (trained / "checkpoint.pt").unlink()  # the stamp alone does not make a step done
    run("scripts/average.sh", "--run", trained, "--data", data)
    assert (trained / "checkpoint.pt").exists()
