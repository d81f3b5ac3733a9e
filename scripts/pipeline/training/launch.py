"""Starts fairseq-train under torchrun, on the devices of this machine or of several, and follows its log."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any, Iterator, List, Mapping, NamedTuple, Sequence

from .. import progress
from ..command import Failure, say
from ..paths import RUN
from ..processes import end, end_with_parent, last_error_in
from .worker import GOING_ON

RESTARTS = 3
"""How often torchrun starts a crashed training again; without a new checkpoint the training ends at once."""

WARNING = re.compile(r" \| WARNING \| \S+ \| (.*\S)")
"""What fairseq or the plugin says to the log."""

NO_MEMORY = ("out of memory", "allocate memory", "SIGKILL")
"""In the reasons of a GPU, of PyTorch on a CPU, and of a kernel that has no memory left."""

GRACE = 40.0
"""Seconds for torchrun to end its workers."""


class Machines(NamedTuple):
    """The machines of a training, from the environment: NODES, NODE_RANK, MASTER_ADDR, MASTER_PORT."""

    nodes: int = 1
    rank: int = 0
    address: str = ""
    port: str = "29500"

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Machines":
        """Raises Failure if the numbers do not fit together, or the address of the first machine is missing."""
        count, rank, address = environ.get("NODES", "1"), environ.get("NODE_RANK", "0"), environ.get("MASTER_ADDR", "")
        if not (count.isdecimal() and rank.isdecimal() and int(rank) < int(count)):
            raise Failure(f"NODES is {count} and NODE_RANK is {rank}: the rank counts from 0 to NODES - 1")
        if int(count) > 1 and not address:
            raise Failure(f"MASTER_ADDR is needed with NODES={count}: the address of the machine with NODE_RANK=0")
        return cls(int(count), int(rank), address, environ.get("MASTER_PORT", "29500"))


def torchrun(machines: Machines, processes: int) -> List[str]:
    """The beginning of a command that starts workers and starts them again after a crash."""
    meet = ["--standalone", "--local-addr", "localhost"]  # some machines cannot resolve their own name
    if machines.nodes > 1:
        meet = ["--nnodes", str(machines.nodes), "--node-rank", str(machines.rank)]
        meet += ["--master-addr", machines.address, "--master-port", machines.port]
    workers = ["--nproc-per-node", str(processes), "--max-restarts", str(RESTARTS)]
    workers += ["--log-dir", os.devnull]  # without this it leaves an empty folder among the temporary files
    launcher = [sys.executable, str(RUN), "pipeline.training.launch"]
    return [*launcher, *meet, *workers, str(RUN), "pipeline.training.worker"]


def train(
    machines: Machines,
    processes: int,
    command: Sequence[str],
    log: Path,
    total: int,
    label: str,
    smaller: str,
    variables: Mapping[str, str] = {},
) -> None:
    """Runs a training to its end.

    Args:
        processes: how many workers this machine has.
        command: fairseq-train with a JSON log, and its flags.
        log: file to append the log to.
        total: number of updates, for the progress bar.
        smaller: what to do where the memory of the device is too small for a batch.
        variables: further ones of the environment.

    Raises:
        Signalled: this process was sent a signal; the training has ended.
    """
    environ = {**os.environ, **variables}
    with log.open("ab") as output, log.open("rb") as lines:
        begin = lines.seek(0, os.SEEK_END)
        words = [*torchrun(machines, processes), *command[1:]]
        process = subprocess.Popen(words, stdout=output, stderr=output, env=environ)
        try:
            progress.train(_follow(lines, process), total, label)
        finally:
            end(process, grace=GRACE)
    if process.returncode:
        reason = last_error_in(log, begin)
        remedy = f": {smaller}" if any(sign in reason for sign in NO_MEMORY) else ""
        raise Failure(f"fairseq-train failed: {reason} (log: {log}){remedy}")


def _follow(file: IO[bytes], process: "subprocess.Popen[bytes]") -> Iterator[str]:
    """The lines of a log as they come, until the process that writes it has ended; the user is told of its warnings."""
    rest, told = b"", {""}
    while True:
        ended = process.poll() is not None
        while chunk := file.readline():
            rest += chunk
            if rest.endswith(b"\n"):
                line, rest = rest.decode("utf-8", errors="replace"), b""
                warning = WARNING.search(line)
                message = f"warning: {warning[1]}" if warning else line.rstrip() if line.startswith(GOING_ON) else ""
                if message not in told:
                    say(message)
                    told.add(message)
                yield line
        if ended:
            return
        time.sleep(0.2)


def _stay_deaf_to_a_hangup() -> None:
    """Under nohup, keeps this process from listening to SIGHUP, as torchrun would."""
    listen = signal.signal

    def listen_to_others(number: int, handler: Any) -> Any:
        return listen(number, signal.SIG_IGN if number == signal.SIGHUP else handler)

    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        setattr(signal, "signal", listen_to_others)  # noqa: B010  (mypy refuses the assignment)


if __name__ == "__main__":  # torchrun, which ends together with the command that started it, as its workers do with it
    end_with_parent()
    _stay_deaf_to_a_hangup()
    from torch.distributed.run import main

    main()
