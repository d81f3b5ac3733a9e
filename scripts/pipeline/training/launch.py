"""Starts fairseq-train under torchrun, on the devices of this machine or of several, and follows its log."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Iterator, List, Mapping, Optional, Sequence

from .. import progress
from ..command import Failure, say
from ..failures import last_error_in
from ..files import read_shaped
from ..paths import RUN
from ..processes import end
from ..shape import TEXT
from .worker import GOING_ON

RESTARTS = 3
"""How often torchrun starts a crashed training again; without a new checkpoint the training ends at once."""

GRACE = 40.0
"""Seconds for torchrun to end its workers."""


@dataclass(frozen=True)
class Machines:
    """The machines of a training, from the environment: NODES, NODE_RANK, MASTER_ADDR, MASTER_PORT, RUNS_AT_A_TIME."""

    count: int = 1
    rank: int = 0
    address: str = ""
    port: str = "29500"
    runs: str = ""
    """How many trainings share this machine; empty if that is not known."""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> "Machines":
        """Raises Failure if the numbers do not fit together, or the address of the first machine is missing."""
        for name in ("NODES", "NODE_RANK"):
            if not environ.get(name, "0").isdecimal():
                raise Failure(f"{name} must be a whole number, not '{environ[name]}'")
        count, rank = int(environ.get("NODES", 1)), int(environ.get("NODE_RANK", 0))
        runs = environ.get("RUNS_AT_A_TIME", "")
        if runs and not (runs.isdecimal() and int(runs)):
            raise Failure(f"RUNS_AT_A_TIME must be a whole number, at least 1, not '{runs}'")
        machines = cls(count, rank, environ.get("MASTER_ADDR", ""), environ.get("MASTER_PORT", cls.port), runs)
        if machines.rank >= machines.count:
            raise Failure(f"NODE_RANK counts from 0 to NODES - 1 ({machines.count - 1}), but it is {machines.rank}")
        if machines.count > 1 and not machines.address:
            raise Failure(
                f"MASTER_ADDR is needed with NODES={machines.count}: the address of the machine with NODE_RANK=0"
            )
        return machines


def in_bf16(record: Path) -> bool:
    """Whether the run of this record trains in bfloat16 because its first GPU could.

    Raises:
        Failure: the record is damaged.
    """
    if not record.is_file():
        return False
    return "--bf16" in read_shaped(record, {"batch?": TEXT}, "remove it").get("batch", "").split()


def torchrun(machines: Machines, processes: int) -> List[str]:
    """The beginning of a command that starts workers and starts them again after a crash."""
    meet = ["--standalone"]
    if machines.count > 1:
        meet = ["--nnodes", str(machines.count), "--node-rank", str(machines.rank)]
        meet += ["--master-addr", machines.address, "--master-port", machines.port]
    workers = ["--nproc-per-node", str(processes), "--max-restarts", str(RESTARTS)]
    workers += ["--log-dir", os.devnull]  # without this it leaves an empty folder among the temporary files
    launcher = [sys.executable, str(RUN), "pipeline.training.launcher"]
    return [*launcher, *meet, *workers, str(RUN), "pipeline.training.worker"]


def train(command: Sequence[str], log: Path, lock: Optional[int], total: int, label: str, smaller: str) -> None:
    """Runs a training to its end.

    Args:
        command: command that starts fairseq-train with a JSON log.
        log: file to append the log to.
        lock: file descriptor that the processes of the training also hold.
        total: number of updates, for the progress bar.
        smaller: what to do where the memory of the device is too small for a batch.

    Raises:
        Failure: it failed; the message is the last error in the log.
        Signalled: this process was sent a signal; the training has ended.
    """
    environ = dict(os.environ)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # under nohup, where torchrun would listen nevertheless
        environ["TORCHELASTIC_SIGNALS_TO_HANDLE"] = "SIGTERM,SIGINT,SIGQUIT"
    with log.open("ab") as output:
        start = output.tell()
        process = subprocess.Popen(
            list(command), stdout=output, stderr=output, pass_fds=() if lock is None else (lock,), env=environ
        )
    try:
        with log.open("rb") as lines:
            lines.seek(start)
            progress.train(_follow(lines, process), total, label)
    finally:
        end(process, grace=GRACE)
    if process.returncode:
        reason = last_error_in(log)
        remedy = f": {smaller}" if "out of memory" in reason else ""
        raise Failure(f"fairseq-train failed: {reason} (log: {log}){remedy}")


def _follow(file: IO[bytes], process: "subprocess.Popen[bytes]") -> Iterator[str]:
    """The lines of a log as they come, until the process that writes it has ended."""
    rest = b""
    while True:
        ended = process.poll() is not None
        while chunk := file.readline():
            rest += chunk
            if rest.endswith(b"\n"):
                line = rest.decode("utf-8", errors="replace")
                if line.startswith(GOING_ON):
                    say(line.rstrip())
                yield line
                rest = b""
        if ended:
            return
        time.sleep(0.2)
