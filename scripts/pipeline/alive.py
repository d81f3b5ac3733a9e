"""Runs a command with its output in a log, and shows that it lives: the time so far and the last line of the log.

::

    python scripts/run.py pipeline.alive LOG COMMAND...

A terminal gets one line that moves, everything else a line every half minute. It needs the standard library alone:
scripts/install.sh calls it before anything is installed.
"""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import List

from .command import run, script_name

SECONDS_BETWEEN_LINES = 30.0
SECONDS_BETWEEN_FRAMES = 0.5
END = 4096  # bytes of a log that have its last line


def main(argv: List[str]) -> None:
    log, command = Path(argv[0]), argv[1:]
    start, terminal = time.monotonic(), sys.stderr.isatty()
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(SECONDS_BETWEEN_FRAMES if terminal else SECONDS_BETWEEN_LINES)
            if process.returncode is None:
                _show(line(log, time.monotonic() - start), terminal)
    except BaseException:  # mostly Signalled
        process.terminate()
        raise
    finally:
        if terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
    sys.exit(0 if process.returncode == 0 else 1)


def line(log: Path, seconds: float) -> str:
    """What to show: the time, and the last line of the log that is not empty."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - END))
        said = file.read().decode("utf-8", errors="replace").split("\n")
    last = next((text for text in reversed(said) if text.strip()), "")
    minutes, rest = divmod(int(seconds), 60)
    name = script_name().removesuffix(".sh")
    return f"[{name}] {minutes}:{rest:02d} " + "".join(letter for letter in last.strip() if letter.isprintable())


def _show(text: str, terminal: bool) -> None:
    if not terminal:
        print(text, file=sys.stderr, flush=True)
        return
    columns = os.get_terminal_size(sys.stderr.fileno()).columns or 80
    print(f"\r\x1b[K{text[: columns - 1]}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    run(main)
