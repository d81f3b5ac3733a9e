"""The options of a sweep, of ``scripts/reproduce.sh`` or as Snakemake's ``--config``."""

import argparse
import shlex
from pathlib import Path
from typing import Any, List, Mapping, NoReturn, Optional, Sequence, Type

from ..command import Failure, Parser, split_at_dashes, whole_number, words_of
from ..recipes import recipe_names


class ConfigParser(Parser):
    """Reads the same options, where nobody typed them as such."""

    def error(self, message: str) -> NoReturn:
        raise Failure(f"{message} (config entries are options of scripts/reproduce.sh --help)")


def parse(argv: Sequence[str], doc: Optional[str] = None, kind: Type[Parser] = Parser) -> argparse.Namespace:
    """The options of ``scripts/reproduce.sh``; ``flags`` is what stands behind ``--``."""
    options, flags = split_at_dashes(argv)
    parser = kind(doc)
    number = whole_number(1)
    parser.add_argument("recipe", help=f"a file of scripts/recipes without .toml: {', '.join(recipe_names())}")
    parser.add_argument(
        "--data",
        type=Path,
        help="folder with the recipe's raw text (default: data/RECIPE in the project; WMT14 is downloaded)",
    )
    parser.add_argument("--mirror", help="as in scripts/download.sh")
    parser.add_argument("--news-commentary", metavar="N", help="as in scripts/download.sh")
    parser.add_argument(
        "--archs",
        nargs="+",
        action="extend",
        help="architectures (default: the recipe's); '*_multi30k' is every family at this size",
    )
    parser.add_argument(
        "--variant",
        dest="variants",
        action="append",
        default=[],
        metavar='"NAME ARCH FLAGS"',
        help="also ARCH with these fairseq-train flags, under this name; any number of times",
    )
    parser.add_argument(
        "--seeds", nargs="+", action="extend", help="(default: 1); all systems have the first before any has the second"
    )
    parser.add_argument("--out", type=Path, help="gets data/, ARCH/seedN/, results/, report/ (default: runs/RECIPE)")
    parser.add_argument(
        "--results", type=Path, help="one small file for each run; those there count as finished (default: OUT/results)"
    )
    parser.add_argument("--report", type=Path, help="the report about all of them (default: OUT/report)")
    for name in ("max-update", "save-every", "device-tokens", "processes"):
        parser.add_argument(f"--{name}", type=number, help="as in scripts/train.sh")
    parser.add_argument("--baseline", metavar="ARCH", help="what the report compares with (default: sinusoidal)")
    args = parser.parse_args(options)
    args.seeds = words_of(args.seeds or ["1"])
    for seed in args.seeds:
        try:
            whole_number(0)(seed)
        except argparse.ArgumentTypeError as error:
            parser.error(f"--seeds: {error}")
    numbers = [int(seed) for seed in args.seeds]
    for seed in numbers:
        if numbers.count(seed) > 1:
            parser.error(f"--seeds names '{seed}' twice: name it once")
    args.seeds = numbers
    return argparse.Namespace(**vars(args), flags=flags)


def parse_config(config: Mapping[str, Any]) -> argparse.Namespace:
    """The same of Snakemake's ``--config``, whose entries have the names of the options; and ``variants``, ``flags``.

    Raises:
        Failure: an unknown entry, one of the wrong form, or no recipe.
    """
    known = vars(parse(["any"]))
    for name, value in config.items():
        if name not in known:
            raise Failure(f"unknown config entry '{name}'; there are: {' '.join(known)}")
        words = _list(value)
        if not words or any(word is None or isinstance(word, (dict, list)) for word in words):
            raise Failure(f"config entry '{name}' must be a value or a list of values, not {value!r}")
    if "recipe" not in config:
        raise Failure(f"no recipe: give --config recipe=NAME; there are: {' '.join(recipe_names())}")
    entries = dict(config)
    argv = [str(entries.pop("recipe"))]
    variants, flags = entries.pop("variants", []), entries.pop("flags", [])
    if not isinstance(variants, list):  # YAML joins the lines of a text
        raise Failure(f"config entry 'variants' must be a list, variants='[\"NAME ARCH FLAGS\"]', not {variants!r}")
    argv += [f"--variant={variant}" for variant in variants]
    argv += [f"--{name.replace('_', '-')}={' '.join(map(str, _list(value)))}" for name, value in entries.items()]
    try:
        argv += ["--", *(map(str, flags) if isinstance(flags, list) else shlex.split(str(flags)))]
    except ValueError as error:
        raise Failure(f"config entry 'flags' cannot be split into words ({error}): give a list of them") from None
    return parse(argv, kind=ConfigParser)


def _list(value: Any) -> List[Any]:
    return value if isinstance(value, list) else [value]
