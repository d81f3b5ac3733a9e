"""The scripts: what they keep, skip and refuse."""

import pytest

from ..commands import ROOT, one_line, prepare, run

pytestmark = pytest.mark.slow


def test_every_script_has_help():
    for path in (ROOT / "scripts").glob("*.sh"):
        if path.name != "environment.sh":
            assert f"scripts/{path.name}" in run(path, "--help").stdout


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


def test_changed_settings_redo_the_steps_behind_them_and_what_was_trained_before_stays_with_its_data(
    corpus, data, trained, tmp_path
):
    assert "done before" in prepare(corpus, data).stderr
    assert "done before" not in prepare(corpus, tmp_path / "other", "--merges", 50).stderr
    again = prepare(corpus, tmp_path / "other", "--merges", 60).stderr
    assert again.count("done before") == 2  # the copy and the tokens do not depend on the merges
    for script in ("average.sh", "score.sh"):
        failed = run(f"scripts/{script}", "--run", trained, "--data", tmp_path / "other", fails=True)
        one_line(failed, "was trained on other data")
