"""Runs a recipe from raw text to a table and a report (report.html, report.md), one run after the other.

A run is one architecture, or a variant of one, with one seed: train, average, score every test set. The command skips
runs that finished with the same settings, here or on another machine (their files in --results count). After a kill,
call it again: it continues from the last checkpoint. When one training fails, the others go on. Several calls may share
a folder, each with other architectures or seeds; scripts/Snakefile runs many at a time by itself (docs/sweeps.md).
Flags behind `--` go to fairseq-train for all systems.

Example: scripts/reproduce.sh multi30k --data ~/multi30k --archs "roformer_multi30k transformer_sinusoidal_multi30k"
"""

import argparse
import contextlib
import logging
import shlex
from itertools import chain
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from . import device
from .command import Failure, Parser, seeds, to_path, whole_number
from .experiment import walk
from .recipes import recipe_names
from .sweep import Sweep


def parse(argv: Sequence[str], doc: Optional[str] = None) -> argparse.Namespace:
    """The options of ``scripts/reproduce.sh``."""
    parser = Parser(doc, "fairseq-train")
    several = {"nargs": "+", "action": "extend"}
    known: List[Tuple[str, str, Dict[str, Any]]] = [
        ("recipe", f"a name in scripts/recipes ({', '.join(recipe_names())}), or the path of any .toml file", {}),
        ("--data", "folder with the raw text (default: mostly data/RECIPE in the project, or the folder of a .toml "
         "file elsewhere, of the recipe whose data it shares; WMT14 is downloaded)", {"type": to_path}),
        ("--archs", "architectures (default: the recipe's); '*_multi30k' stands for every family at this size, '' for "
         "none but those of --variant", several),
        ("--variant", "also run ARCH with these flags of fairseq-train, under the name NAME; repeat it for more",
         {"dest": "variants", "action": "append", "default": [], "metavar": '"NAME ARCH FLAGS"'}),
        ("--seeds", "random seeds; all systems run with the first before any with the second (default: 1)",
         {**several, "type": seeds}),
        ("--out", "output folder: data/, ARCH/seedN/, results/, report/ (default: runs/RECIPE, or the folder of the "
         "recipe whose data it shares)", {"type": to_path}),
        ("--results", "folder with one small file per run; runs that have a matching one are skipped (default: "
         "OUT/results)", {"type": to_path}),
        ("--report", "folder for the report on these results (default: OUT/report)", {"type": to_path}),
        *((f"--{name}", "as in scripts/train.sh", {"type": whole_number(1)})
          for name in ("max-update", "save-every", "device-tokens", "processes")),
        ("--workers", "as in scripts/prepare.sh", {"type": whole_number(1)}),
        ("--baseline", "architecture to compare with (default: sinusoidal; of language models, learned)",
         {"metavar": "ARCH"}),
        ("--only", "for scripts/Snakefile: the only step to do, of --run", {"choices": ("prepare", "train", "finish")}),
        ("--run", "likewise: the only run to do", {"metavar": "SYSTEM/seedN"}),
        ("--gpus", "likewise: do it on one of these GPUs that no other call uses", {}),
    ]  # fmt: skip
    for name, text, how in known:
        parser.add_argument(name, help=text, **how)
    args = parser.parse_args(argv)
    args.seeds = list(dict.fromkeys(chain.from_iterable(args.seeds or [[1]])))
    return args


def words_of_config(config: Mapping[str, Any]) -> List[str]:
    """The same options from Snakemake's ``--config``, whose entries have their names, ``variants`` and ``flags``."""
    if "recipe" not in config:
        raise Failure(f"no recipe: give --config recipe=NAME; there are: {' '.join(recipe_names())}")
    lists = {name: value if isinstance(value, list) else [value] for name, value in config.items()}
    variants, flags = lists.pop("variants", []), config.get("flags", [])
    words = [str(config["recipe"]), *(f"--variant={variant}" for variant in variants)]
    for name in lists.keys() - {"recipe", "flags"}:
        words.append(f"--{name.replace('_', '-')}={' '.join(map(str, lists[name]))}")
    return [*words, "--", *(map(str, flags) if isinstance(flags, list) else shlex.split(str(flags)))]


def _do(sweep: Sweep, args: argparse.Namespace) -> None:
    """One step, for the Snakefile."""
    if args.only == "prepare":
        sweep.prepare()
    for experiment in sweep.experiments:
        if f"{experiment.system.name}/seed{experiment.seed}" == args.run and not experiment.is_finished():
            experiment.train() if args.only == "train" else experiment.finish()


def main(argv: Sequence[str]) -> None:
    args = parse(argv, __doc__)
    logging.disable(logging.INFO)  # what fairseq and matplotlib say
    with device.one_of(args.gpus.split(",")) if args.gpus else contextlib.nullcontext():
        sweep = Sweep(args)
        if args.only:
            return _do(sweep, args)
        sweep.prepare()
        walk(sweep.experiments, lambda: sweep.make_report(quiet=True))
        sweep.end()
