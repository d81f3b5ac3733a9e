"""The command line of the benchmarks: the options that all share, and the table at the end."""

import argparse
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Sequence

import torch

from ..command import Failure, Parser, run, split_at_dashes, to_path
from ..files import read_json, write_json
from ..paths import ROOT
from ..provenance import code
from ..shape import COMMAND, problem
from . import machine, quiet
from .output import as_command, as_text, measured_as

BENCHMARKS = ("train", "decode", "rope", "attention", "criterion", "prepare")
"""Modules with ``add_arguments`` and ``run``, whose first line says what they measure. They import fairseq, which may
speak when it is imported."""

TRAINED = ("train", "decode")
FLAGS = "Flags behind -- go to fairseq-train for the models of all candidates, such as --encoder-layers 2."

RESULTS = ROOT / "results"


def build_parser() -> Parser:
    parser = Parser((sys.modules[__package__].__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="{" + ",".join(BENCHMARKS) + "}")
    for name in BENCHMARKS:
        module = import_module(f"{__package__}.{name}")
        title = (module.__doc__ or "").splitlines()[0]
        command = commands.add_parser(name, help=title, doc=title, epilog=FLAGS if name in TRAINED else None)
        repeats = getattr(module, "REPEATS", 5)
        command.add_argument("--repeats", type=int, default=repeats, help=f"measured rounds (default: {repeats})")
        if name == "prepare":
            command.set_defaults(device="cpu")
        else:
            command.add_argument("--device", choices=("cpu", "cuda"), help="device (default: cuda where there is one)")
        command.add_argument(
            "--out",
            nargs="?",
            type=to_path,
            const=RESULTS,
            help="also write JSON: to this file, or to benchmark-WHAT-DEVICE.json in this folder (default: results)",
        )
        module.add_arguments(command)
        command.set_defaults(measure=module.run)
    return parser


def check(args: argparse.Namespace, command: str) -> None:
    """Checks and completes the options that all share.

    Raises:
        Failure: a number, a device or a folder that cannot be used, or a file with figures of another command.
    """
    if args.repeats < 2:
        raise Failure(f"--repeats must be at least 2, not {args.repeats}")
    for name, value in vars(args).items():
        values = value if isinstance(value, list) else [value]
        if any(isinstance(number, int) and number < 0 for number in values):
            raise Failure(f"--{name.replace('_', '-')} must not be negative")
    if args.flags and args.command not in TRAINED:
        raise Failure(f"{args.command} takes no flags of fairseq-train")
    if args.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # fairseq would compute the norm of the gradients on a GPU
    if args.device == "cuda" and not torch.cuda.is_available():
        raise Failure("--device cuda: PyTorch sees no GPU here")
    args.device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if args.out and (args.out == RESULTS or args.out.is_dir()):
        args.out = args.out / f"benchmark-{args.command}-{args.device.type}.json"
    if args.out:
        _check_file(args.out, command)


def _check_file(out: Path, command: str) -> None:
    if out.suffix != ".json":
        raise Failure(f"{out}: no such folder for --out; make it, or name a file that ends in .json")
    if not out.resolve().parent.is_dir():
        raise Failure(f"{out.parent}: no such folder for --out")
    if out.exists():
        before = read_json(out)
        if problem(before, {"command": COMMAND}) or not measured_as(before["command"], command):
            raise Failure(f"{out} has the figures of another command: name another file, or remove this one")


def main(argv: Sequence[str]) -> None:
    quiet()
    options, flags = split_at_dashes(argv)
    args = build_parser().parse_args(options)
    args.flags = flags
    command = as_command(argv)
    check(args, command)
    result = {**args.measure(args), "command": command, "commit": code(ROOT)}
    result["machine"] = machine.describe(args.device)
    print(as_text(result), flush=True)
    if args.out:
        write_json(args.out, result)


if __name__ == "__main__":
    run(main)
