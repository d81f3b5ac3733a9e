"""Kills a recipe's whole chain by kill -9 at random moments; in the end all is as in an undisturbed run.

::

    python -m tests.kills --kills 15 --seed 1 --out FOLDER

Not part of the suite: it takes half an hour. Every kill reaches the whole process group, and the same command is then
called again. Compared are the tensors of the averaged and the last model, the binarised data, and the scores.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

from .commands import ENVIRONMENT, SMALL, parameters, start
from .helpers import same

RUN = "roformer_tiny/seed1"


def chain(out):
    options = ["--out", out, "--max-update", 40, "--save-every", 4, "--", *SMALL, "--max-tokens", 600]
    with out.with_name(f"{out.name}.log").open("ab") as log:
        return start("scripts/reproduce.sh", "demo", *options, env=ENVIRONMENT, stdout=log, stderr=log)


def figures(out):
    """Data and scores that a chain ends in."""
    scores = {path.name: json.loads(path.read_text()) for path in (out / RUN / "scores").glob("*.json")}
    scores = {name: (score["scores"], score["statistics"]) for name, score in scores.items()}
    return scores, {path.name: path.read_bytes() for path in (out / "data/bin").iterdir()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    args.out.mkdir(parents=True)
    whole, killed = args.out / "whole", args.out / "killed"
    begin = time.monotonic()
    assert chain(whole).wait() == 0, f"see {whole}.log"
    seconds, moments, done = time.monotonic() - begin, random.Random(args.seed), 0
    while done < args.kills:
        begin, process = time.monotonic(), chain(killed)
        try:
            assert process.wait(moments.uniform(0, seconds)) == 0, f"see {killed}.log"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            done += 1
            print(f"kill {done} of {args.kills}", flush=True)
            continue
        seconds = time.monotonic() - begin  # of what is left: the training once more
        subprocess.run(["rm", "-rf", killed / RUN, killed / "results"], check=True)
    assert chain(killed).wait() == 0, f"see {killed}.log"
    assert figures(whole) == figures(killed)
    for name in ("checkpoint.pt", "checkpoints/checkpoint_last.pt"):
        assert same(*(parameters(out / RUN / name) for out in (whole, killed))), name
    print(f"{args.kills} kills: the same")


if __name__ == "__main__":
    main()
