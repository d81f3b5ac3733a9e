"""The command line of the benchmarks: the options that both share, the table and the file."""

import os
import shlex
import sys
from typing import Any, Dict, List, Sequence

import torch

from ..command import Failure, Parser, run, split_at_dashes, to_path, whole_number
from ..files import read_json, write_json
from ..paths import ROOT
from ..provenance import code
from ..results.file import without_folders
from . import machine, quiet

FLAGS = "Flags behind -- go to fairseq-train for the models of all candidates, such as --encoder-layers 2."


def build_parser() -> Parser:
    from . import decode, train  # fairseq may speak when it is imported

    parser = Parser((sys.modules[__package__].__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="{train,decode}")
    for name, module in (("train", train), ("decode", decode)):
        title = (module.__doc__ or "").splitlines()[0]
        command = commands.add_parser(name, help=title, doc=title, epilog=FLAGS)
        command.add_argument("--repeats", type=whole_number(2), default=5, help="measured rounds (default: 5)")
        command.add_argument("--device", choices=("cpu", "cuda"), help="device (default: cuda where there is one)")
        command.add_argument(
            "--vocabulary", type=whole_number(10), default=37000, help="size of the vocabulary (default: 37000)"
        )
        command.add_argument("--profile", action="store_true", help="also say which operators take the time")
        command.add_argument(
            "--out", type=to_path, help="also write JSON: a file, or a folder for benchmark-WHAT-DEVICE.json"
        )
        module.add_arguments(command)
        command.set_defaults(measure=module.run)
    return parser


def as_table(rows: List[Dict[str, Any]]) -> str:
    """Rows as a Markdown table."""
    cells = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in cells)


def plain(value: Any) -> str:
    """An entry of a result as a text without brackets and quotes."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain(entry)}" for key, entry in value.items())
    return ", ".join(map(plain, value)) if isinstance(value, list) else str(value)


def main(argv: Sequence[str]) -> None:
    quiet()
    options, flags = split_at_dashes(argv)
    args = build_parser().parse_args(options)
    args.flags = flags
    if args.device == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""  # fairseq would compute the norm of the gradients on a GPU
    if args.device == "cuda" and not torch.cuda.is_available():
        raise Failure("--device cuda: PyTorch sees no GPU here")
    args.device = torch.device(args.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    command = without_folders(shlex.join(["scripts/benchmark.sh", *argv]), {"--out": "PATH"})
    if args.out and args.out.suffix != ".json":
        args.out = args.out / f"benchmark-{args.command}-{args.device.type}.json"
    if args.out and args.out.exists() and read_json(args.out).get("command") != command:
        raise Failure(f"{args.out} has the figures of another command: name another file, or remove this one")
    result = {**args.measure(args), "flags": flags, "repeats": args.repeats, "command": command}
    result |= {"commit": code(ROOT), "machine": machine.describe(args.device)}
    settings = [f"{name}: {plain(value)}" for name, value in result.items() if name not in ("what", "rows")]
    print("\n".join([as_table(result["rows"]), "", result["what"], *settings]), flush=True)
    if args.out:
        write_json(args.out, result)


if __name__ == "__main__":
    run(main)
