"""The wheel: the plugin alone, whose command works where the repository is out of sight."""

import functools
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
import torch

import fairseq_rope

from . import commands
from .commands import ROOT

PACKAGES = Path(torch.__file__).parent.parent
"""Where the tests' environment has fairseq and PyTorch; its own fairseq_rope, if editable, is not in this folder."""

ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
WHERE = "import os, sys; print(*map(os.path.realpath, sys.path), sep='\\n')"


run = functools.partial(commands.run, env=ENVIRONMENT)


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
    run(sys.executable, "-m", "pip", "wheel", ".", *options, "--wheel-dir", root, cwd=source)
    (built,) = root.glob("*.whl")
    return built


def test_it_holds_the_plugin_alone(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    version = fairseq_rope.__version__
    assert wheel.name == f"fairseq_rope-{version}-py3-none-any.whl"
    assert {name.split("/")[0] for name in names} == {"fairseq_rope", f"fairseq_rope-{version}.dist-info"}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "fairseq_rope").rglob("*.py")}
    assert {name for name in names if name.startswith("fairseq_rope/")} == {*modules, "fairseq_rope/py.typed"}


@pytest.mark.slow
@pytest.mark.long
def test_the_command_works_where_the_repository_is_out_of_sight(wheel, tmp_path):
    """In an environment that takes all other packages from the tests' environment."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", tmp_path / "bin/python"]
    run(*pip, "install", "--no-deps", "--no-index", wheel)
    (packages,) = tmp_path.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(f"{PACKAGES}\n")
    path = run(tmp_path / "bin/python", "-c", WHERE, cwd=tmp_path).stdout.splitlines()
    assert not {str(ROOT.resolve()), str(ROOT.resolve() / "scripts")} & set(path)
    printed = run(tmp_path / "bin/fairseq-rope", "info", "--user-dir", cwd=tmp_path).stdout
    assert printed == f"{packages}/fairseq_rope\n"
