"""The recipe of WMT14 from its archives to the report, small: archives of other text, tiny models, a few updates."""

import json

import pytest

from pipeline.corpus.wmt14 import LANGS

from ..commands import SMALL, run
from ..pipeline.corpus.test_wmt14 import download, write_archives, write_tests

pytestmark = pytest.mark.slow


@pytest.fixture
def raw(corpus, tmp_path):
    """The folder of the raw text, downloaded from archives with the small corpus: its training set in three parts."""
    train, valid, test = (
        [(corpus / f"{name}.{lang}").read_text(encoding="utf-8").split("\n")[:-1] for lang in LANGS]
        for name in ("train", "valid", "test")
    )
    write_tests(tmp_path / "cache", {"wmt13": valid, "wmt14/full": test})
    folder = tmp_path / "out/raw"
    write_archives(folder / "archives", [[side[part::3] for side in train] for part in range(3)])
    download(folder, tmp_path / "cache")
    return folder


def result(out, name):
    return json.loads((out / f"results/{name}.json").read_text(encoding="utf-8"))


@pytest.mark.long
def test_the_recipe_runs_from_the_archives_to_the_report_and_another_one_shares_its_data(raw, corpus):
    out = raw.parent
    options = ["--out", out, "--max-update", 5, "--save-every", 1]
    flags = ["--", *SMALL, "--max-tokens", "600"]
    first = run("scripts/reproduce.sh", "wmt14_en_de", *options, "--archs", "roformer_tiny", "--seeds", 2, *flags)
    assert "wmt14_en_de: roformer_tiny has " in first.stdout and f"Report: {out}/report/report.html" in first.stdout
    text = (raw / "train.de").read_text(encoding="utf-8").split("\n")
    assert sorted(text) == sorted((corpus / "train.de").read_text(encoding="utf-8").split("\n"))
    info = json.loads((out / "data/prepare.json").read_text())
    assert info["pairs"] == {"train": 400, "valid": 21, "test": 21, "test1": 10, "test2": 5}
    assert info["hyphens"] == "split"
    found = result(out, "wmt14_en_de-roformer_tiny-seed2")
    assert found["training"]["averaged"] == 5 and found["training"]["updates"] == 5
    assert found["tests"]["newstest2014"]["sentences"] == 21
    assert (out / "report/report.html").stat().st_size > 10000

    done = run("scripts/reproduce.sh", "wmt14_en_de_shaw", *options, "--archs", "transformer_shaw_tiny", *flags)
    assert "binarize: done before" in done.stderr and (out / "shaw/transformer_shaw_tiny/seed1").is_dir()
    assert "wmt14_en_de_shaw: transformer_shaw_tiny has " in done.stdout and "wmt14_en_de: roformer_tiny" in done.stdout
    found = result(out, "wmt14_en_de_shaw-transformer_shaw_tiny-seed1")
    assert found["training"]["averaged"] == 1 and "--decoder-ffn-embed-dim 1024" in found["run"]["flags"]
