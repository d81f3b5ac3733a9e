"""Runs a line-by-line command over a large file, in shards on several processors. It needs no fairseq.

The output is that of ``COMMAND < INPUT > OUTPUT``, byte by byte, for any command that writes one line for each line,
whatever the lines around it. After a kill, finished shards stay in ``OUTPUT.shards``, and the next call with the same
command and input continues from there. A finished output of the same command and input stays as it is.
"""

import hashlib
import shutil
import subprocess
import tempfile
import time
import uuid
from concurrent.futures import Executor, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, List, Sequence, Set, Tuple

from ..command import Failure
from ..files import replacing, sha256, write_text
from ..progress import Progress

BLOCK = 1 << 20
Processes = Set["subprocess.Popen[bytes]"]


@dataclass(frozen=True)
class Shard:
    """A range of whole lines of a file."""

    start: int  # bytes
    stop: int
    lines: int


def find_shards(path: Path, lines: int) -> List[Shard]:
    """Cuts a file into ranges of at most ``lines`` lines each; the last line may lack its newline."""
    shards, start, position, count = [], 0, 0, 0
    with path.open("rb") as file:
        for line in file:
            position += len(line)
            count += 1
            if count == lines:
                shards.append(Shard(start, position, count))
                start, count = position, 0
    if count:
        shards.append(Shard(start, position, count))
    return shards


def even_shards(total: int, workers: int, lines: int) -> int:
    """The largest number of lines per shard, at most ``lines``, that gives each worker equally many shards."""
    rounds = max(1, -(-total // (workers * lines)))
    return max(1, -(-total // (workers * rounds)))


def run_shard(command: Sequence[str], source: Path, shard: Shard, target: Path, running: Processes) -> None:
    """Passes one range of ``source`` through ``command`` into ``target``, which appears when it is complete.

    Args:
        running: holds the command's process while it runs.

    Raises:
        Failure: the command fails, or writes another number of lines than it read.
    """
    with replacing(target) as output, tempfile.TemporaryFile() as errors:
        with subprocess.Popen(list(command), stdin=subprocess.PIPE, stdout=output, stderr=errors) as process:
            running.add(process)
            try:
                _feed(process, source, shard)
            finally:
                running.discard(process)
        if process.returncode:
            errors.seek(0)
            reason = errors.read().decode("utf-8", errors="replace").strip().splitlines() or ["no reason given"]
            raise Failure(f"{command[0]} failed with status {process.returncode}: {reason[-1][:300]}")
        written = count_lines(Path(output.name))
        if written != shard.lines:
            raise Failure(f"{command[0]} made {written} lines of {shard.lines}: it must keep them apart, one by one")


def _feed(process: "subprocess.Popen[bytes]", source: Path, shard: Shard) -> None:
    """Hands a range of ``source`` to the command and waits for its end."""
    assert process.stdin is not None
    with source.open("rb") as lines:
        lines.seek(shard.start)
        try:
            for position in range(shard.start, shard.stop, BLOCK):
                process.stdin.write(lines.read(min(BLOCK, shard.stop - position)))
            process.stdin.close()
        except BrokenPipeError:  # the command ended before its input did: its exit status says why
            pass
    process.wait()


def count_lines(path: Path) -> int:
    """Newlines of a file."""
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(BLOCK), b""))


def map_lines(
    command: Sequence[str],
    source: Path,
    target: Path,
    workers: int,
    lines: int,
    label: str,
    depends: Sequence[Path] = (),
) -> int:
    """Passes ``source`` through ``command`` into ``target``; returns the number of lines.

    Args:
        command: reads lines from stdin and writes as many to stdout; started once per shard.
        workers: how many commands run at a time.
        lines: the largest size of a shard; a kill costs each worker one shard.
        label: the label of the progress bar.
        depends: files that the command also reads; if their content changes, the output is made again.

    Raises:
        Failure: :func:`run_shard` fails; finished shards stay.
    """
    lines = even_shards(count_lines(source) + 1, workers, lines)
    folder, note = target.with_name(f"{target.name}.shards"), target.with_name(f".{target.name}.key")
    key = key_of((list(command), lines), [source], depends)
    shards = find_shards(source, lines)
    total = sum(shard.lines for shard in shards)
    if target.exists() and note.exists() and note.read_text() == key:
        return total
    keep_if_the_same(folder, key)
    parts = [folder / f"{number:06d}.done" for number in range(len(shards))]
    running: Processes = set()
    missing = [(s.lines, (command, source, s, part, running)) for s, part in zip(shards, parts) if not part.exists()]
    with ThreadPoolExecutor(workers) as pool:
        try:
            run_jobs(pool, run_shard, missing, label, total)
        except BaseException:  # also a signal: otherwise the pool would wait for running commands
            for process in list(running):
                process.kill()
            raise
    with replacing(target) as output:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, output, BLOCK)
    write_text(note, key)
    shutil.rmtree(folder)
    return total


def run_jobs(
    pool: Executor,
    work: Callable[..., Any],
    jobs: Sequence[Tuple[int, Tuple[Any, ...]]],
    label: str,
    total: int,
    finish: Callable[[Any], None] = lambda _: None,
) -> None:
    """Calls ``work(*arguments)`` for each of ``jobs`` (lines, arguments), with a bar that counts lines.

    Args:
        finish: called in this process with the result of ``work``.
        total: lines of all jobs, including those done before.

    Raises:
        Exception: the first exception of a job; jobs that had not begun are cancelled.
    """
    progress, start = Progress(label, total, "lines"), time.monotonic()
    before = total - sum(lines for lines, _ in jobs)
    progress.begin(before)
    futures = {pool.submit(work, *arguments): lines for lines, arguments in jobs}
    try:
        for future in as_completed(futures):
            finish(future.result())
            done = progress.done + futures[future]
            progress.to(done, f"{(done - before) / (time.monotonic() - start):,.0f} per second")
    finally:
        for future in futures:
            future.cancel()
        progress.close()


def key_of(settings: Any, sources: Sequence[Path], depends: Sequence[Path] = ()) -> str:
    """A key for what an output depends on: settings, files by their size and time, files by their content."""
    known = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in sources]
    contents = [sha256(path) for path in depends]
    return hashlib.sha256(repr((settings, known, contents)).encode()).hexdigest()


def keep_if_the_same(folder: Path, key: str) -> None:
    """Makes the folder of finished shards, or keeps it with its content if it has the same key."""
    note = folder / "key"
    if folder.exists() and not (note.exists() and note.read_text() == key):
        old = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}.old")
        folder.rename(old)  # processes that a killed run left behind write there
        shutil.rmtree(old, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    note.write_text(key)
