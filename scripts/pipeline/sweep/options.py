"""The options of a sweep, from ``scripts/reproduce.sh`` or from Snakemake's ``--config``."""

import argparse
import shlex
from typing import Any, List, Mapping, NoReturn, Optional, Sequence, Type

from ..command import Failure, Parser, not_empty, seeds_of, split_at_dashes, to_path, whole_number, words_of
from ..recipes import recipe_names


class ConfigParser(Parser):
    """Reads the same options from Snakemake's configuration."""

    def error(self, message: str) -> NoReturn:
        raise Failure(f"{message} (config entries are options of scripts/reproduce.sh --help)")


def parse(argv: Sequence[str], doc: Optional[str] = None, kind: Type[Parser] = Parser) -> argparse.Namespace:
    """The options of ``scripts/reproduce.sh``; ``flags`` are the words behind ``--``."""
    options, flags = split_at_dashes(argv)
    parser = kind(doc, "fairseq-train")
    number = whole_number(1)
    parser.add_argument(
        "recipe",
        help=f"a name in scripts/recipes ({', '.join(recipe_names())}), or the path of any .toml file; glue, "
        "glue_cpu and scm are for scripts/finetune.sh, small is for scripts/train.sh",
    )
    parser.add_argument(
        "--data",
        type=to_path,
        help="folder with the raw text (default: data/RECIPE in the project, with the name of the recipe whose data it "
        "shares, or the folder of a .toml file elsewhere; WMT14 is downloaded)",
    )
    parser.add_argument("--mirror", type=not_empty, help="as in scripts/download.sh")
    parser.add_argument("--news-commentary", metavar="N", help="as in scripts/download.sh")
    parser.add_argument(
        "--archs",
        nargs="+",
        action="extend",
        help="architectures (default: the recipe's); '*_multi30k' stands for every family at this size, '' for "
        "none but those of --variant",
    )
    parser.add_argument(
        "--variant",
        dest="variants",
        action="append",
        default=[],
        metavar='"NAME ARCH FLAGS"',
        help="also run ARCH with these flags of fairseq-train, under the name NAME; repeat it for more",
    )
    parser.add_argument(
        "--seeds",
        nargs="+",
        action="extend",
        help="random seeds; all systems run with the first before any with the second (default: 1)",
    )
    parser.add_argument(
        "--out",
        type=to_path,
        help="output folder: data/, ARCH/seedN/, results/, report/ (default: runs/RECIPE, or the folder of the recipe "
        "whose data it shares)",
    )
    parser.add_argument(
        "--results",
        type=to_path,
        help="folder with one small file per run; runs that have a matching one are skipped (default: OUT/results)",
    )
    parser.add_argument("--report", type=to_path, help="folder for the report on these results (default: OUT/report)")
    for name in ("max-update", "save-every", "device-tokens", "processes"):
        parser.add_argument(f"--{name}", type=number, help="as in scripts/train.sh")
    parser.add_argument(
        "--baseline",
        metavar="ARCH",
        help="architecture to compare with (default: sinusoidal; of language models, learned)",
    )
    args = parser.parse_args(options)
    args.seeds = seeds_of(parser, words_of(args.seeds or ["1"]))
    return argparse.Namespace(**vars(args), flags=flags)


def parse_config(config: Mapping[str, Any]) -> argparse.Namespace:
    """The same options from Snakemake's ``--config``, whose entries have their names, ``variants`` and ``flags``.

    Raises:
        Failure: an entry is unknown or has the wrong form, or there is no recipe.
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
