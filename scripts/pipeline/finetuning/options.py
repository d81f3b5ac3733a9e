"""The options of ``scripts/finetune.sh``. It needs no fairseq."""

import argparse
import shlex
from pathlib import Path
from typing import List, Sequence

from ..command import Parser, script_name, split_at_dashes, to_path, whole_number, words_of
from ..systems import is_variant
from .glue import TASKS as GLUE
from .scm import SCM

TASKS = {task.name: task for task in (*GLUE, SCM)}

ALL_OF_GLUE = "GLUE"
"""Stands for all its tasks."""


def parse(argv: Sequence[str], doc: str) -> List[argparse.Namespace]:
    """The options for each run and task, its command as ``template``, and the words behind ``--`` as ``flags``."""
    template, argv = split_at_dashes(argv)
    options, flags = split_at_dashes(argv)
    parser = Parser(doc)
    names = [*TASKS, ALL_OF_GLUE]
    parser.add_argument(
        "task", nargs="+", choices=names, metavar="TASK", help=f"tasks: {', '.join(names)} (all its tasks)"
    )
    parser.add_argument(
        "--run",
        type=to_path,
        nargs="+",
        action="extend",
        required=True,
        help="outputs of scripts/train.sh and scripts/average.sh",
    )
    parser.add_argument("--data", type=to_path, required=True, help="folder with the files of the task")
    parser.add_argument("--out", type=to_path, help="output folder (default: RUN/finetuned/TASK)")
    parser.add_argument("--results", type=to_path, help="folder of the result file (default: the output folder)")
    parser.add_argument("--recipe", help="grid and flags (default: glue, of SCM scm)")
    parser.add_argument(
        "--learning-rates", nargs="+", action="extend", metavar="X", help="rates to try (default: the recipe's)"
    )
    parser.add_argument(
        "--seeds", nargs="+", action="extend", metavar="N", help="seeds of each rate (default: the recipe's)"
    )
    parser.add_argument("--epochs", type=whole_number(1), metavar="N", help="epochs (default: the recipe's)")
    parser.add_argument("--variant", default="", help="name of the pretrained model among others of its architecture")
    args = parser.parse_args(options)
    args.command = shlex.join([f"scripts/{script_name()}", *argv])
    for name, check in (("learning_rates", _positive), ("seeds", whole_number(0))):
        try:
            given = list(dict.fromkeys(map(check, words_of(getattr(args, name) or []))))
        except argparse.ArgumentTypeError as error:
            parser.error(f"--{name.replace('_', '-')}: {error}")
        setattr(args, name, given)
    if args.variant and not is_variant(args.variant):
        parser.error(f"--variant is a name of letters, digits, _ and ., not {args.variant!a}")
    glue = [task.name for task in GLUE]
    tasks = [name for task in args.task for name in (glue if task == ALL_OF_GLUE else [task])]
    cells = list(dict.fromkeys((run, task) for run in args.run for task in tasks))
    if args.out and len(cells) > 1:
        parser.error("--out is the folder of one task and one run: leave it out")
    common = {**vars(args), "template": template, "flags": flags}
    return [argparse.Namespace(**{**common, "run": run, "task": task}) for run, task in cells]


def _positive(text: str) -> float:
    """A number above 0."""
    try:
        if 0 < float(text) < 1:
            return float(text)
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"must be a number above 0 and below 1, not '{text}'")


def variant_of(run: Path, arch: str) -> str:
    """The variant of a run of scripts/reproduce.sh, in ARCH-VARIANT/seedN; empty if it has none."""
    name, _, variant = run.resolve().parent.name.partition("-")
    return variant if name == arch and is_variant(variant) else ""
