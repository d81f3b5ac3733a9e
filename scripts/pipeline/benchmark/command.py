"""Measures speed as ratios: candidates take turns in one process, and their times are divided round by round.

Flags behind -- go to fairseq-train for the models of all candidates, such as --encoder-layers 2.
"""

import json
import os
import shlex
from typing import Any, Dict, List, Sequence

import torch

from ..command import Failure, Parser, to_path, whole_number
from ..files import read_json, write_json
from ..provenance import code
from ..results import without_folders
from .measuring import machine, quiet


def build_parser() -> Parser:
    from . import decode, train  # fairseq may speak when it is imported

    parser = Parser(__doc__, "fairseq-train")
    commands = parser.add_subparsers(dest="command", required=True, metavar="{train,decode}")
    for name, module in (("train", train), ("decode", decode)):
        command = commands.add_parser(name, help=module.__doc__, doc=module.__doc__)
        command.add_argument("--repeats", type=whole_number(2), default=5, help="measured rounds (default: 5)")
        command.add_argument("--device", choices=("cpu", "cuda"), help="device (default: cuda where there is one)")
        types = "size of the vocabulary (default: 37000)"
        command.add_argument("--vocabulary", type=whole_number(10), default=37000, help=types)
        command.add_argument("--profile", action="store_true", help="also say which operators take the time")
        out = "also write JSON: a file, or a folder for benchmark-WHAT-DEVICE.json"
        command.add_argument("--out", type=to_path, help=out)
        module.add_arguments(command)
        command.set_defaults(measure=module.run)
    return parser


def as_table(rows: List[Dict[str, Any]]) -> str:
    """Rows as a Markdown table."""
    cells = [list(rows[0]), ["---"] * len(rows[0]), *(list(row.values()) for row in rows)]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in cells)


def main(argv: Sequence[str]) -> None:
    quiet()
    args = build_parser().parse_args(argv)
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
    result = {**args.measure(args), "flags": args.flags, "repeats": args.repeats, "command": command}
    result |= {"commit": code(), "machine": machine(args.device)}
    print(f"{as_table(result['rows'])}\n\n{result['what']}")
    for name, value in result.items():
        if name not in ("rows", "what"):
            print(f"{name}: {json.dumps(value, ensure_ascii=False)}")
    if args.out:
        write_json(args.out, result)
