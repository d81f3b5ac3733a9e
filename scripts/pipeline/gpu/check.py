"""Tests, measures and trains on a GPU, part by part.

Parts, in their order:
  tests      the tests that need a GPU
  train      a training step of base size in bf16 against fairseq's: rate, share of peak, memory, operators
  compile    the same with torch.compile
  decode     beam search over 1, 64 and 256 sentences against fairseq's
  rope       RoPE alone
  criterion  projection and loss alone
  families   a training step of every other encoding, two at a time; then with torch.compile
  multi30k   the recipe multi30k, every encoding, all seeds; needs --multi30k
  mix        the recipe mix; needs --mix

The short parts come first, so that a machine held for minutes measures something of each.

What is done with this code, on this machine, is skipped. After --minutes the command ends what runs; call it again:
trainings continue from their last checkpoints, a benchmark begins anew. All figures go below --out. At its end, also
after a failure, the command packs figures, reports and logs into OUT/figures.tar.gz; `tar xzf figures.tar.gz results`
unpacks the figures in the project at home. --rehearse tries all parts on the CPU in small.
"""

import argparse
import os
import signal
import subprocess
import tarfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import torch

from ..command import Failure, Parser, run, say, seeds_of, to_path, whole_number, words_of
from ..failures import last_error_in
from ..files import replacing
from ..lock import locked
from ..processes import end
from ..provenance import code_hash, provenance
from ..steps import Steps
from ..sweep import device
from .parts import FULL, PARTS, ROOT, SMALL, TRAINED, Command, Parts, Stage

MINUTE = 60.0
PACKED = ("results/*", "*/report/**/*", "**/*.log")
ARCHIVE = "figures.tar.gz"
GRACE = 60.0
"""Seconds in which commands must have ended after SIGTERM."""


class Cut(Failure):
    """The time is over."""


def environment(number: int, of: int) -> Dict[str, str]:
    """The environment of one of ``of`` commands at a time: its share of the processors, and one of the GPUs."""
    own = {"RUNS_AT_A_TIME": str(of)}
    if of > 1:
        own["OMP_NUM_THREADS"] = str(max(1, (os.cpu_count() or 1) // of))
    if gpus := device.visible():
        own["CUDA_VISIBLE_DEVICES"] = gpus[number % len(gpus)]
    return {**os.environ, **own}


def run_all(commands: Sequence[Command], log: Path, deadline: float, lock: Optional[int] = None) -> None:
    """Runs commands at the same time, with their output in one log; none outlives the call.

    Args:
        deadline: when to end them, by ``time.monotonic()``.
        lock: a descriptor that they hold as well, so that those of a killed call keep others out.

    Raises:
        Cut: they took longer.
        Failure: one failed.
    """
    processes: List[subprocess.Popen[bytes]] = []
    with log.open("wb") as output:
        own: Dict[str, Any] = {"stdout": output, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
        own.update(cwd=ROOT, pass_fds=() if lock is None else (lock,))
        try:
            for number, command in enumerate(commands):
                processes.append(subprocess.Popen(command, env=environment(number, len(commands)), **own))
            states = [process.wait(max(0, deadline - time.monotonic())) for process in processes]
        except subprocess.TimeoutExpired:
            raise Cut("the time is over: call again to go on") from None
        finally:
            end(*processes, grace=GRACE)
    if failed := [state for state in states if state]:
        how = f"status {failed[0]}" if failed[0] > 0 else signal.Signals(-failed[0]).name
        raise Failure(f"{how}: {last_error_in(log)} ({log})")


def check(part: str, stages: Sequence[Stage], folder: Path, deadline: float, lock: Optional[int]) -> None:
    """Runs the stages of a part that are not done. When a benchmark fails, the others go on.

    Raises:
        Cut: the time is over.
        Failure: a stage failed.
    """
    failed = []
    about = {**provenance(ROOT), "commit": code_hash(ROOT)}  # a commit does not tell one change from another
    folder.mkdir(parents=True, exist_ok=True)
    for stage in stages:
        steps = Steps(folder)
        steps.setting(str(about))
        for command in stage.commands:
            steps.setting(" ".join(command))
        log = folder / f"{stage.name}.log"
        say(f"{part}, log: {log}")
        outputs = [str(path) for path in stage.outputs]  # absolute, so outside the folder
        try:
            steps.step(stage.name, outputs, partial(run_all, stage.commands, log, deadline, lock))
        except Failure as error:
            if isinstance(error, Cut) or part in TRAINED:
                raise
            failed.append(str(error))
    if failed:
        raise Failure("; ".join(failed))


def pack(out: Path) -> None:
    """Packs what a user takes home into one archive."""
    files = {path for pattern in PACKED for path in out.glob(pattern) if path.is_file()}
    with replacing(out / ARCHIVE) as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for path in sorted(files):
            archive.add(path, path.relative_to(out))
    say(f"figures, reports and logs: {out / ARCHIVE}")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = Parser(__doc__)
    parser.add_argument(
        "--parts", nargs="+", action="extend", choices=PARTS, metavar="PART", help="parts, all by default"
    )
    for recipe in TRAINED:
        parser.add_argument(f"--{recipe}", type=to_path, metavar="FOLDER", help=f"the raw text of the recipe {recipe}")
    parser.add_argument("--seeds", nargs="+", action="extend", help="random seeds (default: 1 2 3; of a rehearsal 1)")
    parser.add_argument("--runs", type=whole_number(1), default=4, help="trainings at a time (default: 4)")
    parser.add_argument("--minutes", type=whole_number(1), help="end after this time (default: when all is done)")
    parser.add_argument(
        "--out", type=to_path, help="figures, logs and runs (default: runs/gpu, of a rehearsal runs/gpu-rehearsal)"
    )
    parser.add_argument("--rehearse", action="store_true", help="on the CPU in small")
    args = parser.parse_args(argv)
    args.seeds = seeds_of(parser, words_of(args.seeds or ["1" if args.rehearse else "1 2 3"]))
    for part in args.parts or ():
        if part in TRAINED and not getattr(args, part):
            parser.error(f"the part {part} needs --{part} FOLDER with the recipe's raw text")
    return args


def check_all(args: argparse.Namespace, parts: Parts, deadline: float, lock: Optional[int]) -> None:
    """Runs the parts that the user names, or all of them.

    Raises:
        Failure: the time is over, or parts failed.
    """
    failed = []
    for part in args.parts or PARTS:
        try:
            if stages := parts.stages(part):
                check(part, stages, args.out / part, deadline, lock)
            else:
                say(f"{part}: left out, because it needs --{part} FOLDER with the recipe's raw text")
        except Cut as error:
            raise Failure(f"{part}: {error}") from None
        except Failure as error:
            say(f"{part}: {error}")
            failed.append(part)
    if failed:
        raise Failure(f"not done: {', '.join(failed)}")


def main(argv: Sequence[str]) -> None:
    start, args = time.monotonic(), parse(argv)
    if args.rehearse:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    elif not torch.cuda.is_available():
        raise Failure("PyTorch sees no GPU here: --rehearse tries all parts on the CPU in small")
    args.out = (args.out or ROOT / "runs" / ("gpu-rehearsal" if args.rehearse else "gpu")).absolute()
    parts = Parts(args, SMALL if args.rehearse else FULL)
    deadline = start + (MINUTE * args.minutes if args.minutes else threading.TIMEOUT_MAX / 2)
    with locked(args.out) as lock:
        parts.results.mkdir(parents=True, exist_ok=True)
        try:
            check_all(args, parts, deadline, lock)
        finally:
            pack(args.out)


if __name__ == "__main__":
    run(main)
