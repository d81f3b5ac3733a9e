"""Runs fairseq's own tests with architectures of this plugin, and prints a table beside fairseq's own.

::

    python -m tests.host_suite [--families FAMILY ...]

It downloads the source package of the installed fairseq, checks that its code is what is installed, and runs its tests
once as they are and once for each family. It needs the network. The exit status is 1 if a family differs from fairseq's
own in a way that EXPLAINED does not name.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from importlib import metadata
from pathlib import Path
from xml.etree import ElementTree

import fairseq

from fairseq_rope.architectures import FAMILIES

HERE = Path(__file__).parent
STOCK = "fairseq's own"
KINDS = ("passed", "failed", "skipped")
SELECTED = {
    "test_binaries.py": ["TestTranslation", "TestActivationCheckpointing"],
    "test_sequence_generator.py": ["TestJitSequenceGenerator"],
    "test_inference_dropout.py": [],
    "test_reproducibility.py": [],
    "test_activation_checkpointing.py": [],
    "test_checkpoint_utils.py": [],
    "test_transformer.py": [],
    "test_export.py": [],
}
"""Files of fairseq's tests, to their classes that use a transformer for translation; none stands for all."""

OTHER_MODELS = (
    *("test_lstm", "test_multilingual", "pointer_generator", "lightconv", "dynamicconv", "nonautoregressive"),
    *("cmlm", "insertion_transformer", "laser"),
)
"""Parts of the names of tests that are about other models."""

SCRIPT = "TorchScript is refused in words"
EXPLAINED = {
    "test_transformer_cross_self_attention": "--cross-self-attention is refused",
    **dict.fromkeys(["test_export_transformer", "test_export_transformer_no_token_pos_emb"], SCRIPT),
    **dict.fromkeys(["test_ensemble_sequence_generator", "test_export_ensemble_model"], SCRIPT),
}
"""Tests that fail with architectures of this plugin alone, to the reason; docs/compatibility.md has them."""


def installed():
    """Name and version of the distribution that the installed fairseq comes from."""
    for name in ("fairseq-fixed", "fairseq"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            return name, metadata.version(name)
    sys.exit("fairseq is not installed as fairseq or fairseq-fixed")


def download(folder):
    """Unpacks the source package of the installed fairseq; returns its root.

    Raises:
        SystemExit: its code is not what is installed, or it has no tests.
    """
    name, version = installed()
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation", "--no-binary", name]
    if subprocess.run([*pip, "--dest", folder, f"{name}=={version}"]).returncode:
        sys.exit(f"pip cannot download the source package of {name} {version}: the lines above say why")
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "source", filter="data")
    (root,) = (folder / "source").iterdir()
    here = Path(fairseq.__file__).parent
    for path in sorted((root / "fairseq").rglob("*.py")):
        name = path.relative_to(root / "fairseq")
        if "examples" in name.parts or name.name == "version.py":  # the second is made when fairseq is built
            continue
        if not (here / name).is_file() or (here / name).read_bytes() != path.read_bytes():
            sys.exit(f"{archive.name} is not what is installed: fairseq/{name} differs")
    if not (root / "tests/test_binaries.py").is_file():
        sys.exit(f"{archive.name} has no tests")
    return root


def arrange(root, folder):
    """The tests of ``root`` beside our support, apart from its code: what is installed is tested."""
    shutil.copytree(root / "tests", folder / "tests")
    (folder / "tests/__init__.py").touch()
    shutil.copy(HERE / "host_support.py", folder / "tests/utils.py")
    (folder / "tests/conftest.py").write_text("from . import utils  # before the tests import fairseq's model\n")
    (folder / "examples").symlink_to(Path(fairseq.__file__).parent / "examples")


def run_tests(folder, family):
    """Name of each test, with its file, to its outcome and the first line of its error."""
    report = folder / "report.xml"
    names = [f"tests/{file}::{part}" for file, parts in SELECTED.items() for part in parts or [""]]
    environ = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{HERE.parent}", "OMP_NUM_THREADS": "1"}
    environ.pop("FAMILY", None)
    if family != STOCK:
        environ["FAMILY"] = family
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", folder]
    command += [f"--junitxml={report}", "-k", " and ".join(f"not {part}" for part in OTHER_MODELS)]
    subprocess.run([*command, *(name.removesuffix("::") for name in names)], cwd=folder, env=environ, stdout=2)
    found = {}
    for case in ElementTree.parse(report).iter("testcase"):
        file = (
            f"{(case.get('classname') or case.get('name')).split('.')[1]}.py"  # one that fails to load has no classname
        )
        problem = next((part for part in case if part.tag in ("failure", "error", "skipped")), None)
        message = "" if problem is None else (problem.get("message") or "").strip().split("\n")[0]
        kind = "passed" if problem is None else "skipped" if problem.tag == "skipped" else "failed"
        found[file, case.get("name")] = (kind, message)
    return found


def table(columns):
    """Markdown: a row for each file, a column for each run."""
    rows = [f"| file | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    for file in SELECTED:
        cells = []
        for found in columns.values():
            counts = Counter(kind for (other, _), (kind, _) in found.items() if other == file)
            cells.append(", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind]))
        rows.append(f"| `{file}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def differences(columns):
    """Lines about the tests whose outcome is not that of fairseq's own, and the number of those not explained."""
    lines, unexplained = [], 0
    for family, found in columns.items():
        for (file, name), (kind, message) in found.items():
            if kind != columns[STOCK].get((file, name), ("", ""))[0]:
                unexplained += name not in EXPLAINED
                lines.append(f"{family}: {file} {name} {kind}: {EXPLAINED.get(name, message)}")
    return lines, unexplained


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    families = ["roformer", "transformer_sinusoidal", "tupe_r", "transformer_t5"]
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=families, metavar="FAMILY")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = download(Path(temporary))
        folder = Path(temporary) / "run"
        arrange(root, folder)
        columns = {family: run_tests(folder, family) for family in [STOCK, *args.families]}
    lines, unexplained = differences(columns)
    print(f"{'='.join(installed()):}", table(columns), "\n".join(lines), sep="\n\n")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
