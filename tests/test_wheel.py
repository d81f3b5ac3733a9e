"""The wheel: the plugin alone, whose command builds models where the repository is out of sight."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import torch

import fairseq_rope

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


def test_it_holds_the_plugin_alone(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    version = fairseq_rope.__version__
    assert wheel.name == f"fairseq_rope-{version}-py3-none-any.whl"
    assert {name.split("/")[0] for name in names} == {"fairseq_rope", f"fairseq_rope-{version}.dist-info"}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "fairseq_rope").rglob("*.py")}
    assert {name for name in names if name.startswith("fairseq_rope/")} == {*modules, "fairseq_rope/py.typed"}


@pytest.mark.slow
def test_the_command_works_where_the_repository_is_out_of_sight(wheel, tmp_path):
    """In an environment that takes all other packages from the tests' environment."""
    run(tmp_path, sys.executable, "-m", "venv", "--without-pip", tmp_path)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", tmp_path / "bin/python"]
    run(tmp_path, *pip, "install", "--no-deps", "--no-index", wheel)
    (packages,) = tmp_path.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(f"{PACKAGES}\n")
    where, *path = run(tmp_path, tmp_path / "bin/python", "-c", WHERE).stdout.splitlines()
    assert tmp_path in Path(where).parents
    assert not {str(ROOT.resolve()), str(ROOT.resolve() / "scripts")} & set(path)
    info = run(tmp_path, tmp_path / "bin/fairseq-rope", "info", "--vocabulary", "9").stdout
    assert info.startswith(f"--user-dir {Path(where).parent}\n") and "roformer_base" in info
