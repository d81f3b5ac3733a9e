"""The options of scripts/train.sh."""

import argparse
import shlex
from typing import List, Optional, Sequence

from ..command import Failure, Parser, script_name, split_at_dashes, to_path, whole_number
from ..recipes import Recipe, names_batch

DEVICE_TOKENS = 4096
KEPT = 10
"""How many checkpoints to keep, unless the recipe averages more."""


def parse(argv: Sequence[str], doc: Optional[str] = None) -> argparse.Namespace:
    """The options of ``scripts/train.sh``, and the words behind ``--`` as ``flags``.

    ``templates`` are the commands of the script: for translation, and for language models.
    """
    template, argv = split_at_dashes(argv)
    options, flags = split_at_dashes(argv)
    parser = Parser(doc, "fairseq-train")
    number = whole_number(1)
    parser.add_argument("--data", type=to_path, required=True, help="output of scripts/prepare.sh or prepare_text.sh")
    parser.add_argument("--arch", required=True, help="architecture (`fairseq-rope info` lists them)")
    parser.add_argument(
        "--out", type=to_path, required=True, help="output folder: checkpoints/, train.log and run.json"
    )
    parser.add_argument("--recipe", help="hyper-parameters: a name in scripts/recipes, or the path of any .toml file")
    parser.add_argument("--seed", type=whole_number(0), default=1, help="random seed (default: 1)")
    parser.add_argument("--max-update", type=number, help="number of updates (default: the recipe's, else 100000)")
    parser.add_argument(
        "--save-every",
        type=number,
        help=f"updates between checkpoints; the last {KEPT} are kept (default: the recipe's, else 1500)",
    )
    parser.add_argument(
        "--target-tokens",
        type=number,
        help="target tokens per update, on all devices together; determines --max-tokens and --update-freq "
        "(default: the recipe's, else none: --max-tokens is --device-tokens)",
    )
    parser.add_argument(
        "--device-tokens",
        type=number,
        help=f"limit of --max-tokens, by the memory of a device (default: {DEVICE_TOKENS}; more is faster)",
    )
    parser.add_argument(
        "--processes",
        type=number,
        help="processes on this machine, each with a batch of its own, over gloo on CPUs "
        "(default: 1; with --target-tokens, which spreads its batch over them, one per GPU)",
    )
    parser.add_argument(
        "--print-settings",
        action="store_true",
        help="only print the settings that tell this run from others; if the data are not prepared, without their line",
    )
    args = parser.parse_args(options)
    args.command = shlex.join([f"scripts/{script_name()}", *argv])
    return argparse.Namespace(**vars(args), templates=_split(template), flags=flags)


def check_recipe(recipe: Recipe, args: argparse.Namespace) -> None:
    """Raises Failure if the recipe is for another script, or if its task does not have one of the options."""
    if recipe.kind.trained_by != "train.sh":
        raise Failure(f"the recipe {recipe.name} is for scripts/{recipe.kind.trained_by}")
    if args.target_tokens and recipe.kind.is_text:
        raise Failure("--target-tokens is for translation: give `-- --max-tokens N --update-freq N` in its place")


def target_tokens(recipe: Recipe, args: argparse.Namespace) -> Optional[int]:
    """Target tokens of an update; None if the flags choose the batch, or nothing does.

    Raises:
        Failure: an option has no effect beside those flags.
    """
    named = names_batch(args.flags)
    if args.target_tokens and named:
        raise Failure("--target-tokens chooses the batch: leave it out, or --max-tokens and the like behind --")
    tokens = None if named else args.target_tokens or recipe.target_tokens
    if args.device_tokens and not tokens and names_batch([*recipe.train_flags, *args.flags]):
        raise Failure("--device-tokens has no effect beside --max-tokens: give `-- --max-tokens N` in its place")
    return tokens


def _split(words: Sequence[str]) -> List[List[str]]:
    """The commands between words ``or``."""
    places = [-1, *(place for place, word in enumerate(words) if word == "or"), len(words)]
    return [list(words[start + 1 : end]) for start, end in zip(places, places[1:])]
