"""Kills a recipe's whole chain by kill -9 at random moments, and compares what it ends in with an undisturbed run.

::

    python -m tests.kills --kills 15 --seed 1 --out FOLDER

Not part of the suite: it takes half an hour. Every kill reaches the whole process group at a moment drawn uniformly
over the time that the chain takes; the same command is then called again. At the end the tensors of the averaged
model, the binarised data and the scores are the same.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Dict, List

import torch

from .commands import ENVIRONMENT, ROOT, SMALL

RUN = "roformer_tiny/seed1"


def command(out: Path) -> List[str]:
    updates = ["--max-update", "40", "--save-every", "4"]
    return ["scripts/reproduce.sh", "demo", "--out", str(out), *updates, "--", *SMALL, "--max-tokens", "600"]


def start(out: Path) -> "subprocess.Popen[bytes]":
    log = out.with_name(f"{out.name}.log").open("ab")
    return subprocess.Popen(command(out), cwd=ROOT, env=ENVIRONMENT, stdout=log, stderr=log, start_new_session=True)


def state(out: Path) -> Dict[str, Any]:
    """What a chain ends in."""
    folder = out / RUN
    scores = {path.name: json.loads(path.read_text()) for path in sorted((folder / "scores").glob("*.json"))}
    return {
        "data": {path.name: path.read_bytes() for path in sorted((out / "data/bin").iterdir())},
        "model": torch.load(folder / "checkpoint.pt", weights_only=True)["model"],
        "last": torch.load(folder / "checkpoints/checkpoint_last.pt", weights_only=True)["model"],
        "scores": {name: (score["scores"], score["statistics"]) for name, score in scores.items()},
    }


def same(one: Dict[str, Any], other: Dict[str, Any]) -> List[str]:
    """The parts that differ."""
    different = [part for part in ("data", "scores") if one[part] != other[part]]
    for part in ("model", "last"):
        names = one[part].keys() | other[part].keys()
        if not all(torch.equal(one[part][name], other[part][name]) for name in names):
            different.append(part)
    return different


def where(out: Path) -> str:
    """The last message of the chain."""
    lines = out.with_name(f"{out.name}.log").read_text(errors="replace").splitlines()
    return next((line for line in reversed(lines) if line.startswith("[")), "nothing")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True)
    whole, killed = args.out / "whole", args.out / "killed"
    begin = time.monotonic()
    assert start(whole).wait() == 0, where(whole)
    seconds = time.monotonic() - begin
    print(f"undisturbed: {seconds:.0f} s", flush=True)
    moments = random.Random(args.seed)
    done = 0
    while done < args.kills:
        begin, process = time.monotonic(), start(killed)
        try:
            status = process.wait(moments.uniform(0, seconds))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            done += 1
            print(f"kill {done}: behind {where(killed)}", flush=True)
            continue
        assert status == 0, where(killed)
        print("the chain ended before the kill", flush=True)
        seconds = time.monotonic() - begin  # of what is left
        subprocess.run(["rm", "-rf", killed / RUN, killed / "results"], check=True)  # the training once more
    assert start(killed).wait() == 0, where(killed)
    different = same(state(whole), state(killed))
    print(f"{args.kills} kills: " + (f"different: {different}" if different else "the same"))
    raise SystemExit(bool(different))


if __name__ == "__main__":
    main()
