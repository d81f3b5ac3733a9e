"""Tests, measures and trains on a GPU, part by part.

Parts, in their order:
  tests      the tests that need a GPU
  train      a training step of base size in bf16 against fairseq's: rate, share of peak, memory, operators
  families   the same for every encoding
  compile    the same with torch.compile
  decode     beam search over 1, 64 and 256 sentences against fairseq's
  rope       RoPE alone
  criterion  projection and loss alone
  multi30k   the recipe multi30k, every encoding, all seeds; needs --multi30k
  mix        the recipe mix; needs --mix

A part that is done is skipped. A part that --minutes cut is repeated by the next call, and its trainings continue.
--rehearse tries all parts on the CPU in small, and writes no figure outside --out.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import torch

from .command import Failure, Parser, run, say, whole_number
from .failures import last_error_in
from .lock import locked
from .processes import SCRIPTS
from .recipes import load_recipe
from .steps import Steps
from .systems import read_systems

ROOT = SCRIPTS.parent
TRAINED = ("multi30k", "mix")
"""Recipes, and parts of the same name."""

PARTS = ("tests", "train", "families", "compile", "decode", "rope", "criterion", *TRAINED)
MINUTE = 60.0

Command = List[str]


class Scale(NamedTuple):
    """How large everything is."""

    device: str
    size: str
    """The size in the names of architectures; trainings have that of their recipe."""
    training: Sequence[str]
    """Options of ``benchmark.sh train``."""
    decoding: Sequence[str]
    rope: Sequence[str]
    criterion: Sequence[str]
    recipe: Sequence[str]
    """Options of ``reproduce.sh``."""


FULL = Scale("cuda", "base", ("--tokens", "25000"), ("--sentences", "256", "64", "1"), (), ("--tokens", "25000"), ())
SMALL = Scale(
    "cpu",
    "tiny",
    ("--tokens", "200", "--vocabulary", "200", "--repeats", "2"),
    ("--sentences", "2", "1", "--length", "4", "--vocabulary", "200", "--repeats", "2"),
    ("--sentences", "2", "--repeats", "2"),
    ("--tokens", "200", "--vocabulary", "200", "--repeats", "2"),
    ("--max-update", "10", "--save-every", "2"),
)


class Checks:
    """The commands of every part.

    Raises:
        Failure: a folder with text is missing.
    """

    def __init__(self, args: argparse.Namespace, scale: Scale) -> None:
        self.args, self.scale = args, scale
        self.results: Path = args.out / "results" if scale is SMALL else ROOT / "results"
        self.raw: Dict[str, Path] = {name: getattr(args, name) for name in TRAINED if getattr(args, name)}
        for name, folder in self.raw.items():
            if not folder.is_dir():
                raise Failure(f"{folder}: no such folder for --{name}")

    def commands(self, part: str) -> List[Command]:
        """What a part runs, all at the same time; nothing if it needs text that is not given."""
        return self._training(part) if part in TRAINED else [getattr(self, f"_{part}")()]

    def _tests(self) -> Command:
        return [sys.executable, "-m", "pytest", "-m", "gpu", "-q", str(ROOT / "tests")]

    def _benchmark(self, what: str, name: str, *options: str) -> Command:
        file = self.results / f"benchmark-{name}-{self.scale.device}.json"
        return [str(SCRIPTS / "benchmark.sh"), what, "--device", self.scale.device, "--out", str(file), *options]

    def _steps(self, name: str, archs: Sequence[str], *options: str) -> Command:
        systems = ["--baseline", "stock", "--archs", *archs, "--precision", "bf16"]
        small = ["--", "--encoder-layers", "1", "--decoder-layers", "1"] if self.scale is SMALL else []
        return self._benchmark("train", name, *systems, *self.scale.training, *options, *small)

    def _train(self) -> Command:
        archs = [f"transformer_sinusoidal_{self.scale.size}", f"roformer_{self.scale.size}"]
        return self._steps("train-bf16", archs, "--memory", "--profile")

    def _families(self) -> Command:
        systems = read_systems([f"*_{self.scale.size}"], [], None)
        return self._steps("train-families", [system.arch for system in systems], "--memory")

    def _compile(self) -> Command:
        return self._steps(
            "train-compiled", ["stock+compile", *(f"roformer_{self.scale.size}{end}" for end in ("", "+compile"))]
        )

    def _decode(self) -> Command:
        return self._benchmark("decode", "decode", "--archs", f"roformer_{self.scale.size}", *self.scale.decoding)

    def _rope(self) -> Command:
        return self._benchmark("rope", "rope", *self.scale.rope)

    def _criterion(self) -> Command:
        return self._benchmark("criterion", "criterion", *self.scale.criterion)

    def _training(self, recipe: str) -> List[Command]:
        """As many commands as trainings may run at a time, each with its share of the systems."""
        if recipe not in self.raw:
            return []
        first = load_recipe(recipe).archs
        rest = read_systems([f"*_{recipe}"], [], None) if recipe == "multi30k" else []
        archs = list(dict.fromkeys([*first, *(system.arch for system in rest)]))
        if self.scale is SMALL:
            archs = [f"{arch.removesuffix('_iwslt_de_en').removesuffix('_multi30k')}_tiny" for arch in archs[:2]]
        out = self.args.out / recipe
        options = ["--data", self.raw[recipe], "--out", out, "--results", self.results, "--report", out / "report"]
        options += ["--seeds", *self.args.seeds, *self.scale.recipe]
        shares = [archs[number :: self.args.runs] for number in range(self.args.runs)]
        script = [SCRIPTS / "reproduce.sh", recipe, *options]
        return [[str(word) for word in (*script, "--archs", *share)] for share in shares if share]


def environment(runs: int) -> Dict[str, str]:
    """The environment of ``runs`` trainings at a time."""
    threads = max(1, (os.cpu_count() or 1) // runs)
    own = {"RUNS_AT_A_TIME": str(runs), "OMP_NUM_THREADS": str(threads)}
    return {**os.environ, **own} if runs > 1 else dict(os.environ)


def run_all(commands: Sequence[Command], log: Path, minutes: Optional[int]) -> None:
    """Runs commands at the same time, with their output in one log.

    Raises:
        Failure: one failed, or they took longer than ``minutes``.
    """
    deadline = time.monotonic() + (MINUTE * minutes if minutes else threading.TIMEOUT_MAX / 2)
    with ExitStack() as stack:
        output = stack.enter_context(log.open("ab"))
        processes: List[subprocess.Popen[bytes]] = []
        for command in commands:
            own: Dict[str, Any] = {"stdout": output, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
            processes.append(subprocess.Popen(command, cwd=ROOT, env=environment(len(commands)), **own))
            stack.callback(processes[-1].wait)
            stack.callback(processes[-1].terminate)  # of one that has ended it does nothing
        try:
            states = [process.wait(max(0, deadline - time.monotonic())) for process in processes]
        except subprocess.TimeoutExpired:
            raise Failure(f"cut after --minutes {minutes}: call again to go on") from None
    if any(states):
        raise Failure(f"{last_error_in(log)} ({log})")


def check(part: str, checks: Checks) -> None:
    """Runs a part, unless it is done.

    Raises:
        Failure: it failed or was cut.
    """
    folder = checks.args.out / part
    commands = checks.commands(part)
    if not commands:
        say(f"{part}: left out, because it needs --{part} FOLDER with the recipe's raw text")
        return
    steps = Steps(folder)
    for command in commands:
        steps.setting(" ".join(command))
    with locked(folder):
        steps.step(part, [], lambda: run_all(commands, folder / "log", checks.args.minutes))


def build_parser() -> Parser:
    parser = Parser(__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help="(default: all)")
    for recipe in TRAINED:
        parser.add_argument(f"--{recipe}", type=Path, metavar="FOLDER", help=f"the raw text of the recipe {recipe}")
    parser.add_argument("--seeds", nargs="+", type=whole_number(0), default=[1, 2, 3], help="(default: 1 2 3)")
    parser.add_argument("--runs", type=whole_number(1), default=4, help="trainings at a time (default: 4)")
    parser.add_argument("--minutes", type=whole_number(1), help="cut a part after this time (default: never)")
    parser.add_argument("--out", type=Path, default=ROOT / "runs/gpu", help="logs and runs (default: runs/gpu)")
    parser.add_argument("--rehearse", action="store_true", help="on the CPU in small")
    return parser


def main(argv: Sequence[str]) -> None:
    args = build_parser().parse_args(argv)
    if not args.rehearse and not torch.cuda.is_available():
        raise Failure("PyTorch sees no GPU here: --rehearse tries all parts on the CPU in small")
    args.out = args.out.absolute()
    checks = Checks(args, SMALL if args.rehearse else FULL)
    checks.results.mkdir(parents=True, exist_ok=True)
    failed = []
    for part in args.parts:
        try:
            check(part, checks)
        except Failure as error:
            say(f"{part}: {error}")
            failed.append(part)
    if failed:
        raise Failure(f"not done: {', '.join(failed)}")


if __name__ == "__main__":
    run(main)
