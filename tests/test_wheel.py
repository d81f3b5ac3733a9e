"""The wheel: the plugin alone."""

import os
import shutil
import sys
import zipfile

import fairseq_rope

from .commands import ROOT, run


def test_it_holds_the_plugin_alone(tmp_path):
    """Built of a copy, as the build leaves files beside the sources."""
    source, environment = tmp_path / "source", {**os.environ}
    for folder in ("fairseq_rope", "scripts", "tests"):
        shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for file in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    environment.pop("PYTHONPATH", None)
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    run(sys.executable, "-m", "pip", "wheel", ".", *options, "--wheel-dir", tmp_path, cwd=source, env=environment)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    version = fairseq_rope.__version__
    assert wheel.name == f"fairseq_rope-{version}-py3-none-any.whl"
    assert {name.split("/")[0] for name in names} == {"fairseq_rope", f"fairseq_rope-{version}.dist-info"}
    modules = {str(path.relative_to(ROOT)) for path in (ROOT / "fairseq_rope").rglob("*.py")}
    assert {name for name in names if name.startswith("fairseq_rope/")} == {*modules, "fairseq_rope/py.typed"}
