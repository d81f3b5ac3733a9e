"""Do the tests notice? Applies each mutation of ``mutations.toml`` to a copy of the working tree and runs its tests.

A mutation is a small error that nobody would see: wrong figures, not a crash. It is killed if one of its tests fails.
Not part of the suite::

    python tests/mutations.py                        all, about eight minutes on one core
    python tests/mutations.py --only 'rope|cache'    those with such a name or file
    python tests/mutations.py --tree OTHER --mutations LIST    another tree with a list of its own
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, List, Optional, Sequence, Set, Tuple

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "build", "dist", "shared")
"""What a copy of the tree does without."""

KILLED, SURVIVED, NOT_APPLIED, BROKEN = "killed", "SURVIVED", "DOES NOT APPLY", "BROKEN"
FAILED_TESTS = 1  # pytest's exit status; the others say that no test had a word
FAILURE = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)


@dataclass(frozen=True)
class Mutation:
    """One error, and the tests that must notice it."""

    name: str
    breaks: str  # a sentence
    file: str
    old: str  # occurs once in the file
    new: str
    tests: Tuple[str, ...]  # as pytest takes them


@dataclass(frozen=True)
class Outcome:
    status: str
    seconds: float
    detail: str  # the test that failed, or what went wrong


class Runner:
    """Runs pytest in copies of a tree; all of its processes and folders are gone when it is closed."""

    def __init__(self, tree: Path, limit: float) -> None:
        self.tree, self.limit = tree, limit
        self.closed = False
        self._running: Set[subprocess.Popen[str]] = set()
        self._guard = threading.Lock()

    @contextmanager
    def copy(self) -> Iterator[Path]:
        """A copy of the tree, and beside it a folder ``tmp``."""
        folder = Path(tempfile.mkdtemp(prefix="mutation-"))
        try:
            shutil.copytree(self.tree, folder / "tree", symlinks=True, ignore=LEFT_OUT)
            yield folder / "tree"
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def python(self, tree: Path, *arguments: str, limit: Optional[float] = None) -> Tuple[Optional[int], str]:
        """Exit status and output of Python in a copy, whose packages it imports; None for one that took too long."""
        environment = {
            "OMP_NUM_THREADS": "1",
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "scripts")]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        with self._guard:
            if self.closed:
                return None, "ended"
            process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=tree,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
                start_new_session=True,
            )
            self._running.add(process)
        try:
            output, _ = process.communicate(timeout=limit)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, f"longer than {limit:.0f} s"
        finally:
            _end(process)
            with self._guard:
                self._running.discard(process)

    def pytest(self, tree: Path, tests: Sequence[str], limit: Optional[float] = None) -> Tuple[Optional[int], str]:
        options = ["-x", "-q", "-p", "no:cacheprovider", f"--basetemp={tree.parent / 'tmp'}"]
        return self.python(tree, "-m", "pytest", *options, *tests, limit=limit)

    def close(self) -> None:
        with self._guard:
            self.closed = True
            for process in self._running:
                _end(process)


def _end(process: "subprocess.Popen[str]") -> None:
    """Kills a process with all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def apply(mutation: Mutation, tree: Path) -> str:
    """Changes the file in a copy; returns why not, or nothing."""
    path = tree / mutation.file
    if not path.is_file():
        return f"no file {mutation.file}"
    text = path.read_text(encoding="utf-8")
    if text.count(mutation.old) != 1:
        return f"the old text occurs {text.count(mutation.old)} times in {mutation.file}"
    path.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    return ""


def judge(mutation: Mutation, runner: Runner) -> Outcome:
    """Whether the tests notice."""
    start = time.monotonic()
    with runner.copy() as tree:
        reason = apply(mutation, tree)
        if reason:
            return Outcome(NOT_APPLIED, 0.0, reason)
        status, output = runner.pytest(tree, mutation.tests, runner.limit)
    seconds = time.monotonic() - start
    if status == 0:
        return Outcome(SURVIVED, seconds, " ".join(mutation.tests))
    if status == FAILED_TESTS or (status is None and not runner.closed):  # what hangs is noticed as well
        failure = FAILURE.search(output)
        return Outcome(KILLED, seconds, failure[1] if failure else output[-300:])
    return Outcome(BROKEN, seconds, f"pytest ended with status {status}: {output[-2000:]}")


def check_baseline(mutations: Sequence[Mutation], runner: Runner) -> None:
    """Exits if a test fails in a copy that is not mutated, or if another package than the copy's is imported."""
    tests = list(dict.fromkeys(test for mutation in mutations for test in mutation.tests))
    start = time.monotonic()
    with runner.copy() as tree:
        _, imported = runner.python(tree, "-c", "import fairseq_rope; print(fairseq_rope.__file__)")
        if imported.splitlines()[-1:] != [str(tree / "fairseq_rope/__init__.py")]:
            sys.exit(f"mutations.py: error: the copy is not what is imported, but {imported}")
        status, output = runner.pytest(tree, tests)
    if status:
        sys.exit(f"{output}\nmutations.py: error: tests fail without a mutation: nothing would be learned from them")
    print(f"baseline: the tests pass without a mutation ({time.monotonic() - start:.0f} s)", flush=True)


def read(path: Path) -> List[Mutation]:
    entries: List[Any] = tomllib.loads(path.read_text(encoding="utf-8"))["mutation"]
    mutations = [Mutation(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]
    if len({mutation.name for mutation in mutations}) < len(mutations):
        sys.exit(f"mutations.py: error: {path} has a name twice")
    return mutations


def run(mutations: Sequence[Mutation], runner: Runner, jobs: int) -> bool:
    """Judges all, and says so; returns whether each was killed."""
    start, counts = time.monotonic(), dict.fromkeys((KILLED, SURVIVED, NOT_APPLIED, BROKEN), 0)
    width = max(len(mutation.name) for mutation in mutations)
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(judge, mutation, runner): mutation for mutation in mutations}
        try:
            for future in as_completed(futures):
                outcome, mutation = future.result(), futures[future]
                counts[outcome.status] += 1
                line = f"{outcome.status:<14} {outcome.seconds:5.1f} s  {mutation.name:<{width}}  {outcome.detail}"
                print(line, flush=True)
        except BaseException:  # Ctrl-C: the pool would wait for all
            for future in futures:
                future.cancel()
            runner.close()
            raise
    summary = ", ".join(f"{count} {status.lower()}" for status, count in counts.items() if count)
    print(f"{len(mutations)} mutations: {summary} ({time.monotonic() - start:.0f} s)")
    return counts[KILLED] == len(mutations)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--only", metavar="PATTERN", default="", help="those whose name or file has this expression")
    parser.add_argument("--list", action="store_true", help="print names and sentences, and do nothing else")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="at a time (default: 1)")
    parser.add_argument("--timeout", type=float, default=300, metavar="SECONDS", help="for each (default: 300)")
    parser.add_argument("--no-baseline", action="store_true", help="do not run the tests without a mutation first")
    parser.add_argument("--tree", type=Path, default=ROOT, metavar="FOLDER", help="to copy (default: this one)")
    parser.add_argument(
        "--mutations", type=Path, default=ROOT / "tests/mutations.toml", metavar="FILE", help="(default: this tree's)"
    )
    args = parser.parse_args()
    chosen = [m for m in read(args.mutations) if re.search(args.only, m.name) or re.search(args.only, m.file)]
    if not chosen:
        parser.error(f"no mutation has '{args.only}' in its name or file")
    if args.list:
        for mutation in chosen:
            print(f"{mutation.name} ({mutation.file}): {mutation.breaks}")
        return
    runner = Runner(args.tree.resolve(), args.timeout)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        if not args.no_baseline:
            check_baseline(chosen, runner)
        killed = run(chosen, runner, max(1, args.jobs))
    except KeyboardInterrupt:
        sys.exit("mutations.py: interrupted")
    finally:
        runner.close()
    sys.exit(0 if killed else 1)


if __name__ == "__main__":
    main()
