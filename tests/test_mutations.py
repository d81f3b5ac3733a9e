"""Errors that nobody would see, wrong figures and not a crash: ``mutations.toml`` has them, and tests must notice.

Not part of the suite: ``python -m tests.test_mutations [WORD ...]`` makes each error whose file or description has one
of the words (default: all) in a copy of the tree, and runs its tests.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .commands import ENVIRONMENT, ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILES = tomllib.loads((ROOT / "tests/mutations.toml").read_text(encoding="utf-8"))
MUTATIONS = [(file, mutation) for file, mutations in FILES.items() for mutation in mutations]


def test_every_mutation_finds_its_code_and_its_tests():
    for name, mutation in MUTATIONS:
        assert (ROOT / name).read_text(encoding="utf-8").count(mutation["old"]) == 1, mutation
        for test in mutation["tests"].split():
            file, _, function = test.partition("::")
            assert f"def {function}" in (ROOT / "tests" / file).read_text(encoding="utf-8"), mutation


def failure(tree, tests):
    """The first test that fails in ``tree``, or nothing; those that hang have noticed."""
    command = [sys.executable, "-m", "pytest", "-x", *(f"tests/{test}" for test in tests)]
    environ = {**ENVIRONMENT, "PYTHONPATH": f"{tree}:{tree}/scripts", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=tree, env=environ, capture_output=True, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        return f"{tests} hang"
    failed = [line.split(" - ")[0] for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0] if failed else "" if done.returncode == 0 else done.stdout[-999:]


def main(words):
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")
        tree = Path(shutil.copytree(ROOT, Path(folder, "tree"), symlinks=True, ignore=ignored))
        for file, mutation in MUTATIONS:
            if words and not any(word in file + mutation["breaks"] for word in words):
                continue
            text, tests = (tree / file).read_text(encoding="utf-8"), mutation["tests"].split()
            assert not (failed := failure(tree, tests)), f"without a mutation: {failed}"
            (tree / file).write_text(text.replace(mutation["old"], mutation["new"]), encoding="utf-8")
            failed = failure(tree, tests)
            (tree / file).write_text(text, encoding="utf-8")
            survivors += not failed
            print(f"{failed or 'SURVIVED'}: {file}: {mutation['breaks']}", flush=True)
    return f"{survivors} survived" if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
