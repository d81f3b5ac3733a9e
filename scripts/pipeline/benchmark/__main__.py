"""The command line of the benchmarks: options that all share, and the table at the end."""

import argparse
import sys
from pathlib import Path
from typing import Any, Dict, List, NoReturn, Optional

import torch

from . import BenchmarkError, attention, decode, machine, prepare, quiet, rope, train
from .output import as_command, as_text, write

BENCHMARKS: Dict[str, Any] = {
    "train": train,
    "decode": decode,
    "rope": rope,
    "attention": attention,
    "prepare": prepare,
}
"""Name to module, which has ``add_arguments`` and ``run`` and says in its first line what it measures."""

TRAINED = (train, decode)
FLAGS = "behind --: flags of fairseq-train for the models of all candidates, such as --encoder-layers 2"

RESULTS = Path(__file__).parents[2] / "results"


class Parser(argparse.ArgumentParser):
    """Refuses in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see --help)\n")


def build_parser() -> Parser:
    parser = Parser(prog="benchmark", description=(sys.modules[__package__].__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="{" + ",".join(BENCHMARKS) + "}")
    for name, module in BENCHMARKS.items():
        title = (module.__doc__ or "").splitlines()[0]
        command = commands.add_parser(name, help=title, description=title, epilog=FLAGS if module in TRAINED else None)
        repeats = getattr(module, "REPEATS", 5)
        command.add_argument("--repeats", type=int, default=repeats, help=f"measured rounds (default: {repeats})")
        if module is prepare:
            command.set_defaults(device="cpu")
        else:
            command.add_argument("--device", choices=("cpu", "cuda"), help="(default: cuda where there is one)")
        command.add_argument(
            "--out",
            nargs="?",
            type=Path,
            const=RESULTS,
            help="also write JSON: to this file, or to benchmark-NAME-DEVICE.json in this folder (default: results)",
        )
        module.add_arguments(command)
    return parser


def check(args: argparse.Namespace) -> None:
    """Completes the options that all share.

    Raises:
        BenchmarkError: a number, a device or a folder that cannot be.
    """
    if args.repeats < 2:
        raise BenchmarkError(f"--repeats must be at least 2, not {args.repeats}")
    for name, value in vars(args).items():
        values = value if isinstance(value, list) else [value]
        if any(isinstance(number, int) and number < 0 for number in values):
            raise BenchmarkError(f"--{name} must not be negative")
    if args.flags and BENCHMARKS[args.command] not in TRAINED:
        raise BenchmarkError(f"{args.command} takes no flags of fairseq-train")
    if args.device == "cuda" and not torch.cuda.is_available():
        raise BenchmarkError("--device cuda: PyTorch sees no GPU here")
    args.device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if args.out and (args.out == RESULTS or args.out.is_dir()):
        args.out = args.out / f"benchmark-{args.command}-{args.device.type}.json"
    if args.out and not args.out.resolve().parent.is_dir():
        raise BenchmarkError(f"{args.out.parent}: no such folder for --out")


def main(arguments: Optional[List[str]] = None) -> None:
    quiet()
    words = list(sys.argv[1:] if arguments is None else arguments)
    end = words.index("--") if "--" in words else len(words)
    args = build_parser().parse_args(words[:end])
    args.flags = words[end + 1 :]
    try:
        check(args)
        result = {**BENCHMARKS[args.command].run(args), "command": as_command(words)}
        result["machine"] = machine.describe(args.device)
        print(as_text(result), flush=True)
        if args.out:
            write(result, args.out)
    except (BenchmarkError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
