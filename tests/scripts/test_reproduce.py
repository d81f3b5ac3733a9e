"""The recipe of WMT14 from its archives to the report, small: a mirror of other text, tiny models, a few updates."""

import json

import pytest

from pipeline.corpus.wmt14 import LANGS

from ..commands import SMALL, one_line, run
from ..pipeline.corpus.test_wmt14 import download, write_mirror, write_tests

pytestmark = pytest.mark.slow

TINY = [*SMALL, "--max-tokens", "600"]
UPDATES = ["--max-update", 5, "--save-every", 1]
BROKEN = "broken transformer_alibi_tiny --train-subset nowhere"


@pytest.fixture(scope="module")
def mirror(corpus, tmp_path_factory):
    """The small corpus in WMT14's archives: its training set in three parts."""

    folder = tmp_path_factory.mktemp("wmt14")
    train, valid, test = (
        [(corpus / f"{name}.{lang}").read_text(encoding="utf-8").split("\n")[:-1] for lang in LANGS]
        for name in ("train", "valid", "test")
    )
    write_tests(folder / "cache", {"wmt13": valid, "wmt14/full": test})
    return write_mirror(folder / "archives", [[side[part::3] for side in train] for part in range(3)])


def result(out, name):
    return json.loads((out / f"results/{name}.json").read_text(encoding="utf-8"))


def test_the_recipe_runs_from_the_archives_to_the_report_past_a_training_that_fails(mirror, corpus, tmp_path):
    out = tmp_path / "out"
    download(out / "raw", mirror, mirror.parent / "cache")
    command = ["scripts/reproduce.sh", "wmt14_en_de", "--mirror", mirror, "--out", out, *UPDATES]
    flags = ["--seeds", "2", "--", *TINY]
    first = run(*command, "--archs", "roformer_tiny", "--variant", BROKEN, *flags, fails=True)
    assert "wmt14_en_de: roformer_tiny has " in first.stdout and f"Report: {out}/report/report.html" in first.stdout
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
    assert (out / "report/report.html").stat().st_size > 10000

    errors = [line for line in first.stderr.splitlines() if "error: " in line]
    assert "(broken), seed 2: not finished: fairseq-train failed: " in first.stderr
    assert "not finished: transformer_alibi_tiny (broken), seed 2: see above; call again to go on" in errors[-1]
    assert "Dataset not found: nowhere" in report.split("Runs that did not finish")[1].split("###")[0]
    assert "Dataset not found" in result(out, "wmt14_en_de-transformer_alibi_tiny-broken-seed2")["unfinished"]

    again = run(*command, "--archs", "roformer_tiny", *flags)
    assert again.stderr.count("finished before") == 1
    assert again.stdout.split("\nRecipe ")[1] == first.stdout.split("\nRecipe ")[1]

    shaw = ["scripts/reproduce.sh", "wmt14_en_de_shaw", "--mirror", mirror, "--out", out, *UPDATES]
    done = run(*shaw, "--archs", "transformer_shaw_tiny", "--", *TINY)
    assert "binarize: done before" in done.stderr and (out / "shaw/transformer_shaw_tiny/seed1").is_dir()
    assert "wmt14_en_de_shaw: transformer_shaw_tiny has " in done.stdout and "wmt14_en_de: roformer_tiny" in done.stdout
    found = result(out, "wmt14_en_de_shaw-transformer_shaw_tiny-seed1")
    assert found["training"]["averaged"] == 1 and "--decoder-ffn-embed-dim 1024" in found["run"]["flags"]


def test_what_cannot_be_downloaded_is_said_in_one_line(mirror, tmp_path):
    command = ["scripts/reproduce.sh", "wmt14_en_de", "--out", tmp_path / "out"]
    failed = run(*command, "--mirror", tmp_path / "nowhere", fails=True).stderr.splitlines()[-1]
    assert "europarl-v7.tgz" in failed and "try another --mirror" in failed
    options = ["--data", tmp_path, "--mirror", mirror]
    one_line(run(*command, *options, fails=True), "--mirror is for recipes that download, without --data")
    one_line(
        run("scripts/reproduce.sh", "demo", "--news-commentary", 12, fails=True), "--news-commentary is for recipes"
    )
