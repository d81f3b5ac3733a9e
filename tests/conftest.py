"""For all tests: one thread, since the models are too small to gain from more and other work then disturbs less."""

import logging
import os
import shutil

import pytest
import torch

from pipeline.files import write_text
from pipeline.lock import AS_LONG_AS_IT_TAKES, locked

from .commands import ENVIRONMENT, ROOT, SMALL, prepare, run

torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the commands that tests start
os.environ["PYTHONPATH"] = ENVIRONMENT["PYTHONPATH"]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """One more than there are cores, because tests wait now and then; for ``-n auto``."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_modifyitems(items):
    """Slow tests come first, and of these the scripts', so that no process is left with them at the end."""
    items.sort(key=lambda item: (item.get_closest_marker("slow") is None, item.path.parent.name != "scripts"))


@pytest.fixture(autouse=True)
def _logging():
    """A command that a test calls in this process may silence loggers; the next test hears them again."""
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """A folder that all processes of one pytest run share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def corpus(shared):
    """The first pairs of the demo corpus, under the same names."""
    folder = shared / "corpus"
    with locked(folder, AS_LONG_AS_IT_TAKES):
        for name, count in (("train", 400), ("valid", 21), ("test", 21), ("test_long", 9)):
            for lang in ("en", "de"):
                lines = (ROOT / f"data/demo/{name}.{lang}").read_text(encoding="utf-8").splitlines(keepends=True)
                write_text(folder / f"{name}.{lang}", "".join(lines[:count]))
    return folder


@pytest.fixture(scope="session")
def data(corpus, shared):
    """It prepared; tests only read it."""
    out = shared / "prepared"
    with locked(shared / "preparation", AS_LONG_AS_IT_TAKES):
        if not (out / "prepare.json").exists():
            prepare(corpus, out)
    return out


@pytest.fixture(scope="session")
def trained_once(data, shared):
    """A run of train.sh and average.sh."""
    out = shared / "roformer"
    options = ["--data", data, "--arch", "roformer_tiny", "--recipe", "demo", "--out", out]
    extra = ["--max-update", 12, "--save-every", 2, "--", *SMALL, "--max-tokens", 600]
    with locked(shared / "training", AS_LONG_AS_IT_TAKES):
        if not (out / "prepare.json").exists():
            run("scripts/train.sh", *options, *extra)
            run("scripts/average.sh", "--run", out, "--data", data)
    return out


@pytest.fixture(scope="module")
def trained(trained_once, tmp_path_factory):
    """A copy of it for the tests of one module, which may change it."""
    return shutil.copytree(trained_once, tmp_path_factory.mktemp("run") / "roformer")
