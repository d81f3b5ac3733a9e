"""A line-by-line command over a large file, in shards on several processors. Imports nothing of this package.

::

    shards.py INPUT OUTPUT --workers 2 --lines 200000 --label tokenize -- COMMAND ...

OUTPUT becomes what ``COMMAND < INPUT > OUTPUT`` would make, byte by byte, for any command that writes one line for each
line it reads, whatever the lines around it. Finished shards stay in ``OUTPUT.shards`` when this is killed, and the next
call with the same command and input goes on from there.
"""

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import List, Sequence

from tqdm import tqdm

BLOCK = 1 << 20
SECONDS_BETWEEN_LINES = 60.0


class ShardError(RuntimeError):
    """The command failed, or did not keep the lines; the message is one line."""


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


def run_shard(command: Sequence[str], source: Path, shard: Shard, target: Path) -> None:
    """Passes one range of ``source`` through ``command`` into ``target``, which appears when it is complete.

    Raises:
        ShardError: the command fails, or writes another number of lines than it read.
    """
    temporary, log = target.with_suffix(".tmp"), target.with_suffix(".log")
    with temporary.open("wb") as output, log.open("wb") as errors, source.open("rb") as lines:
        process = subprocess.Popen(list(command), stdin=subprocess.PIPE, stdout=output, stderr=errors)
        assert process.stdin is not None
        lines.seek(shard.start)
        try:
            for position in range(shard.start, shard.stop, BLOCK):
                process.stdin.write(lines.read(min(BLOCK, shard.stop - position)))
            process.stdin.close()
        except BrokenPipeError:  # the command ended before its input did: its exit status says why
            pass
        status = process.wait()
    if status:
        reason = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["no reason given"]
        raise ShardError(f"{command[0]} failed with status {status}: {reason[-1][:300]}")
    written = count_lines(temporary)
    if written != shard.lines:
        raise ShardError(f"{command[0]} made {written} lines of {shard.lines}: it must keep them apart, one by one")
    log.unlink()
    os.replace(temporary, target)


def count_lines(path: Path) -> int:
    """Newlines of a file."""
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(BLOCK), b""))


def map_lines(command: Sequence[str], source: Path, target: Path, workers: int, lines: int, label: str) -> int:
    """Makes ``target`` of ``source`` through ``command``; returns the number of lines.

    Args:
        command: reads lines from stdin and writes as many to stdout; started once per shard.
        workers: how many run at a time.
        lines: of a shard; what is lost at most by each worker when this is killed.
        label: of the progress bar.

    Raises:
        ShardError: as :func:`run_shard`; finished shards stay.
    """
    folder = target.with_name(f"{target.name}.shards")
    _keep_only_if_the_same(folder, command, source, lines)
    shards = find_shards(source, lines)
    parts = [folder / f"{number:06d}.done" for number in range(len(shards))]
    total = sum(shard.lines for shard in shards)
    missing = [(shard, part) for shard, part in zip(shards, parts) if not part.exists()]
    with ThreadPoolExecutor(workers) as pool, Rate(label, total) as rate:
        rate.add(total - sum(shard.lines for shard, _ in missing), measured=False)

        def work(shard: Shard, part: Path) -> None:
            run_shard(command, source, shard, part)
            rate.add(shard.lines)

        futures = [pool.submit(work, shard, part) for shard, part in missing]
        done, waiting = wait(futures, return_when=FIRST_EXCEPTION)
        for future in waiting:
            future.cancel()
        for future in done:
            future.result()
    temporary = target.with_name(f"{target.name}.tmp")
    with temporary.open("wb") as output:
        for part in parts:
            with part.open("rb") as file:
                shutil.copyfileobj(file, output, BLOCK)
    os.replace(temporary, target)
    shutil.rmtree(folder)
    return total


def _keep_only_if_the_same(folder: Path, command: Sequence[str], source: Path, lines: int) -> None:
    """Finished shards are kept if they are of the same command, input and size."""
    stat = source.stat()
    key = repr((list(command), str(source.resolve()), stat.st_size, stat.st_mtime_ns, lines))
    key = hashlib.sha256(key.encode()).hexdigest()
    note = folder / "key"
    if folder.exists() and not (note.exists() and note.read_text() == key):
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    note.write_text(key)


class Rate:
    """A progress bar in lines and lines per second; where there is no terminal, a line now and then."""

    def __init__(self, label: str, total: int) -> None:
        self.label, self.total, self.done, self.measured = label, total, 0, 0
        self.start = self.last = time.monotonic()
        self.bar = tqdm(total=total, desc=label, unit=" lines", disable=None, dynamic_ncols=True)

    def __enter__(self) -> "Rate":
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()

    def add(self, lines: int, measured: bool = True) -> None:
        """``lines`` more are done; ``measured``: by this process."""
        self.done += lines
        self.measured += lines if measured else 0
        self.bar.update(lines)
        now = time.monotonic()
        if self.bar.disable and now - self.last > SECONDS_BETWEEN_LINES:
            self.last = now
            speed = self.measured / (now - self.start)
            print(f"{self.label}: {self.done} of {self.total} lines, {speed:,.0f} per second", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("input", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="(default: one for each processor)")
    parser.add_argument("--lines", type=int, default=200000, help="of a shard (default: 200000)")
    parser.add_argument("--label", default="", help="of the progress bar")
    parser.add_argument("command", nargs="+", help="reads and writes lines, after --")
    args = parser.parse_args()
    try:
        if args.workers < 1 or args.lines < 1:
            raise ShardError("--workers and --lines must be at least 1")
        map_lines(args.command, args.input, args.output, args.workers, args.lines, args.label or args.output.name)
    except (ShardError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
