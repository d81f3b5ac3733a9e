"""The recipe of WMT14 from its archives to the report, small: a mirror of other text, tiny models, a few updates."""

import json

import pytest

from pipeline.corpus.wmt14 import LANGS, archives

from ..commands import SMALL, one_line, run
from ..pipeline.corpus.archives import write_mirror

pytestmark = pytest.mark.slow

TINY = [*SMALL, "--max-tokens", "600"]
UPDATES = ["--max-update", 5, "--save-every", 1]
BROKEN = "broken transformer_alibi_tiny --train-subset nowhere"
TRAINING = [archive.name for archive in archives() if archive.subset == "train"]


@pytest.fixture(scope="module")
def mirror(corpus, tmp_path_factory):
    """The small corpus in WMT14's archives: its training set in three parts."""

    def lines_of(archive, side):
        name = archive.subset
        lines = (corpus / f"{name}.{LANGS[side]}").read_text(encoding="utf-8").split("\n")[:-1]
        return lines[TRAINING.index(archive.name) :: len(TRAINING)] if name == "train" else lines

    return write_mirror(tmp_path_factory.mktemp("mirror") / "archives", lines_of)


def result(out, name):
    return json.loads((out / f"results/{name}.json").read_text(encoding="utf-8"))


def test_the_recipe_runs_from_the_archives_to_the_report_past_a_training_that_fails(mirror, corpus, tmp_path):
    out = tmp_path / "out"
    command = ["scripts/reproduce.sh", "wmt14_en_de", "--mirror", mirror, "--out", out, *UPDATES]
    flags = ["--seeds", "2", "--", *TINY]
    first = run(*command, "--archs", "roformer_tiny", "--variant", BROKEN, *flags, fails=True)
    assert (
        "The only one on newstest2014: roformer_tiny" in first.stdout
        and f"Report: {out}/report/report.html" in first.stdout
    )
    text = (out / "raw/train.de").read_text(encoding="utf-8").split("\n")
    assert sorted(text) == sorted((corpus / "train.de").read_text(encoding="utf-8").split("\n"))
    info = json.loads((out / "data/prepare.json").read_text())
    assert (
        info["pairs"] == {"train": 400, "valid": 21, "test": 21, "test1": 10, "test2": 5} and info["hyphens"] == "split"
    )
    found = result(out, "wmt14_en_de-roformer_tiny-seed2")
    assert found["training"]["averaged"] == 5 and found["training"]["updates"] == 5
    assert found["tests"]["newstest2014"]["sentences"] == 21
    report = (out / "report/report.md").read_text(encoding="utf-8")
    assert "wmt14_en_de_shaw: not run." in first.stdout and "26.8" in report
    rows = {line.split("|")[1].strip(): line for line in report.splitlines() if line.startswith("| `")}
    assert "not run" in rows["`roformer_base`"] and "27.5" in report and "27.3" in report
    assert (out / "report/report.html").stat().st_size > 10000

    errors = [line for line in first.stderr.splitlines() if "error: " in line]
    assert "Dataset not found: nowhere" in errors[0]
    assert "not finished: transformer_alibi_tiny (broken), seed 2: see above; call again to go on" in errors[-1]
    assert "Dataset not found: nowhere" in report.split("### Runs that did not finish")[1].split("###")[0]
    assert "Dataset not found" in result(out, "wmt14_en_de-transformer_alibi_tiny-broken-seed2")["unfinished"]

    again = run(*command, "--archs", "roformer_tiny", *flags)
    assert again.stderr.count("finished before") == 1
    assert again.stdout.split("\nRecipe ")[1] == first.stdout.split("\nRecipe ")[1]

    shaw = ["scripts/reproduce.sh", "wmt14_en_de_shaw", "--mirror", mirror, "--out", out, *UPDATES]
    done = run(*shaw, "--archs", "transformer_shaw_tiny", "--", *TINY)
    assert "binarize: done before" in done.stderr and (out / "shaw/transformer_shaw_tiny/seed1").is_dir()
    assert "wmt14_en_de_shaw: not run" not in done.stdout and "wmt14_en_de: 1 system" in done.stdout
    found = result(out, "wmt14_en_de_shaw-transformer_shaw_tiny-seed1")
    assert found["training"]["averaged"] == 1 and "--decoder-ffn-embed-dim 1024" in found["run"]["flags"]


def test_what_cannot_be_downloaded_is_said_in_one_line(mirror, tmp_path):
    command = ["scripts/reproduce.sh", "wmt14_en_de", "--out", tmp_path / "out"]
    one_line(run(*command, "--mirror", tmp_path / "nowhere", fails=True), "europarl-v7.tgz", "try another --mirror")
    options = ["--data", tmp_path, "--mirror", mirror]
    one_line(run(*command, *options, fails=True), "--mirror is for recipes that download, without --data")
    one_line(
        run("scripts/reproduce.sh", "demo", "--news-commentary", 12, fails=True), "--news-commentary is for recipes"
    )
