"""For all tests: one thread, since the models are too small to gain from more and other work then disturbs less."""

import os
import shutil

import pytest
import torch

from .commands import ENVIRONMENT, ROOT, SMALL, prepare, run

torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the commands that tests start
os.environ["PYTHONPATH"] = ENVIRONMENT["PYTHONPATH"]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """The first pairs of the demo corpus, under the same names."""
    folder = tmp_path_factory.mktemp("corpus")
    for name, count in (("train", 400), ("valid", 21), ("test", 21), ("test_long", 9)):
        for lang in ("en", "de"):
            lines = (ROOT / f"data/demo/{name}.{lang}").read_text(encoding="utf-8").splitlines(keepends=True)
            (folder / f"{name}.{lang}").write_text("".join(lines[:count]), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def data(corpus, tmp_path_factory):
    """It prepared; tests only read it."""
    out = tmp_path_factory.mktemp("data") / "prepared"
    prepare(corpus, out)
    return out


@pytest.fixture(scope="session")
def trained_once(data, tmp_path_factory):
    """A run of train.sh and average.sh."""
    out = tmp_path_factory.mktemp("run") / "roformer"
    options = ["--data", data, "--arch", "roformer_tiny", "--recipe", "demo", "--out", out]
    extra = ["--max-update", 12, "--save-every", 2, "--", *SMALL, "--max-tokens", 600]
    run("scripts/train.sh", *options, *extra)
    run("scripts/average.sh", "--run", out, "--data", data)
    return out


@pytest.fixture(scope="module")
def trained(trained_once, tmp_path_factory):
    """A copy of it for the tests of one module, which may change it."""
    return shutil.copytree(trained_once, tmp_path_factory.mktemp("run") / "roformer")
