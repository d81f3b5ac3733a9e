"""Who may import whom: the contracts in pyproject.toml hold, and would notice if they did not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("importlinter")
ROOT = Path(__file__).parent.parent


def lint(root):
    environment = {**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'scripts'}"}
    command = [Path(sys.executable).with_name("lint-imports"), "--no-logo", "--no-cache"]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    root = tmp_path_factory.mktemp("layers")
    for folder in ("fairseq_rope", "scripts/pipeline"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


def test_every_contract_is_kept(copy):
    done = lint(copy)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert "5 kept, 0 broken" in done.stdout


@pytest.mark.parametrize(
    "file, line, contract",
    [
        ("fairseq_rope/inspection/sides.py", "import pipeline.results.file", "The plugin knows nothing"),
        ("fairseq_rope/positions/base.py", "import fairseq.utils", "A position encoding knows neither"),
        ("fairseq_rope/positions/rope.py", "from ..attention import cache", "A position encoding knows neither"),
        ("fairseq_rope/attention/cache.py", "from ..translation import RoFormerModel", "Layers of the plugin"),
        ("fairseq_rope/checkpoints/files.py", "from . import average", "No cycles"),
        ("scripts/pipeline/files.py", "from .corpus import text", "Layers of the pipeline"),
        ("scripts/pipeline/results/file.py", "from . import collect", "No cycles"),
    ],
)
def test_an_import_against_them_is_named(copy, file, line, contract):
    text = (copy / file).read_text(encoding="utf-8")
    (copy / file).write_text(f"{text}\n{line}\n", encoding="utf-8")
    try:
        done = lint(copy)
    finally:
        (copy / file).write_text(text, encoding="utf-8")
    assert done.returncode == 1
    assert [name for name in done.stdout.splitlines() if name.startswith(contract) and name.endswith("BROKEN")]
