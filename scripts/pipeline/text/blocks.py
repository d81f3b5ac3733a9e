"""Works in other processes: through large text in blocks of lines, or once. It needs no fairseq."""

import signal
from collections import deque
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing import active_children
from pathlib import Path
from typing import Any, Callable, Deque, Iterator, List

from ..command import Failure
from ..processes import end_with_parent
from ..progress import bar

LINES = 2000
"""Lines of a block: some tenths of a second of work."""

Work = Callable[[List[str]], Any]
"""A function of a block of lines, without their newlines."""

_work: Callable[..., Any]
"""What a process is for."""


def over_blocks(work: Work, path: Path, workers: int, label: str) -> Iterator[Any]:
    """What ``work`` makes of each block of a UTF-8 file, in their order, with a bar that counts lines.

    Args:
        workers: how many processes call ``work``, each a copy of its own.
    """
    with path.open(encoding="utf-8", newline="\n") as file, _processes(work, workers, label) as pool:
        total = sum(1 for _ in file)
        file.seek(0)
        blocks = iter(lambda: [line.rstrip("\n") for line in islice(file, LINES)], [])
        begun: Deque[Future[Any]] = deque()  # few: all of a large text would not fit into memory
        begun.extend(pool.submit(_call, block) for block in islice(blocks, 2 * workers))
        with bar(label, total, "lines") as shown:
            while begun:
                result = begun.popleft().result()
                begun.extend(pool.submit(_call, block) for block in islice(blocks, 1))
                shown.update(min(LINES, total - shown.n))
                yield result


def in_process(work: Callable[[], Any], label: str) -> Any:
    """What ``work`` gives in another process, for a library that hears no signals: it ends when this one has to."""
    with _processes(work, 1, label) as pool:
        return pool.submit(_call).result()


@contextmanager
def _processes(work: Callable[..., Any], workers: int, label: str) -> Iterator[ProcessPoolExecutor]:
    pool = ProcessPoolExecutor(workers, initializer=_begin, initargs=(work,))
    try:
        yield pool
    except BrokenProcessPool:
        remedy = " --workers 1 needs least" if workers > 1 else ""
        raise Failure(f"{label}: a process was ended: is there enough memory?{remedy}") from None
    finally:
        for process in active_children():  # what they still do is of no use
            process.kill()
        pool.shutdown()


def _begin(work: Callable[..., Any]) -> None:
    """Leaves a terminal's signals to the parent process, and does not outlive it."""
    global _work
    _work = work
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the pool ends the others by it when one was killed
    end_with_parent()


def _call(*block: List[str]) -> Any:
    return _work(*block)
