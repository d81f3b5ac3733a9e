"""The wheel: the plugin alone, and enough to train with it where the repository is out of sight."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import data_file_path, index_file_path, make_builder

import fairseq_rope

from .commands import SMALL
from .helpers import sentences

ROOT = Path(__file__).parent.parent
PACKAGES = Path(torch.__file__).parent.parent
"""Where the tests' environment has fairseq and PyTorch; its own fairseq_rope, if editable, is not in this folder."""

ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
WHERE = "import os, sys, fairseq_rope; print(fairseq_rope.__file__, *map(os.path.realpath, sys.path), sep='\\n')"


def run(folder, *command):
    command = [str(word) for word in command]
    done = subprocess.run(command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built of a copy, as the build leaves files beside the sources."""
    root = tmp_path_factory.mktemp("wheel")
    source = root / "source"
    for folder in ("fairseq_rope", "scripts", "tests"):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for file in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    run(source, sys.executable, "-m", "pip", "wheel", ".", *options, "--wheel-dir", root)
    (built,) = root.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """An environment with the wheel, which takes all other packages from the tests' environment."""
    environment = tmp_path_factory.mktemp("environment")
    run(environment, sys.executable, "-m", "venv", "--without-pip", environment)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", environment / "bin/python"]
    run(environment, *pip, "install", "--no-deps", "--no-index", wheel)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(f"{PACKAGES}\n")
    return environment


def test_it_holds_the_plugin_alone(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    version = fairseq_rope.__version__
    assert wheel.name == f"fairseq_rope-{version}-py3-none-any.whl"
    assert {name.split("/")[0] for name in names} == {"fairseq_rope", f"fairseq_rope-{version}.dist-info"}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "fairseq_rope").rglob("*.py")}
    assert {name for name in names if name.startswith("fairseq_rope/")} == {*modules, "fairseq_rope/py.typed"}


@pytest.mark.slow
def test_the_command_works_where_the_repository_is_out_of_sight(installed, tmp_path):
    where, *path = run(tmp_path, installed / "bin/python", "-c", WHERE).stdout.splitlines()
    assert installed in Path(where).parents
    assert not {str(ROOT.resolve()), str(ROOT.resolve() / "scripts")} & set(path)
    user_dir = run(tmp_path, installed / "bin/fairseq-rope", "info", "--user-dir")
    assert user_dir.stdout == f"{Path(where).parent}\n" and user_dir.stderr == ""
    info = run(tmp_path, installed / "bin/fairseq-rope", "info", "--vocabulary", 100)
    assert info.stdout.startswith(f"--user-dir {Path(where).parent}\n") and info.stderr == ""
    options = run(tmp_path, installed / "bin/python", "-m", "fairseq_rope", "options")
    assert "--rope-base" in options.stdout and options.stderr == ""


def binarise(folder):
    """A few random sentences as fairseq-preprocess would leave them."""
    folder.mkdir()
    dictionary = Dictionary()
    for i in range(36):
        dictionary.add_symbol(f"w{i}")
    for side, lang in enumerate(("en", "de")):
        dictionary.save(str(folder / f"dict.{lang}.txt"))
        for seed, subset in enumerate(("train", "valid")):
            prefix = str(folder / f"{subset}.en-de.{lang}")
            builder = make_builder(data_file_path(prefix), impl="mmap", vocab_size=len(dictionary))
            for sentence in sentences(8, 6, seed=2 * seed + side):
                builder.add_item(sentence.int())
            builder.finalize(index_file_path(prefix))


@pytest.mark.slow
def test_fairseq_trains_with_it(installed, tmp_path):
    binarise(tmp_path / "data")
    user_dir = next(installed.glob("lib/python*/site-packages/fairseq_rope"))
    command = [installed / "bin/python", "-m", "fairseq_cli.train", tmp_path / "data", "--user-dir", user_dir, "--cpu"]
    command += ["--arch", "roformer_tiny", *SMALL, "--max-tokens", 60, "--max-update", 2, "--save-dir", "run"]
    command += ["--optimizer", "fused_adam", "--lr", 0.001, "--criterion", "fused_label_smoothed_cross_entropy"]
    log = run(tmp_path, *command)
    assert "num_updates: 2" in log.stdout + log.stderr or "@ 2 updates" in log.stdout + log.stderr
    run(tmp_path, installed / "bin/fairseq-rope", "average", "--inputs", "run/checkpoint_last.pt", "--out", "mean.pt")
    assert (tmp_path / "mean.pt").is_file()
