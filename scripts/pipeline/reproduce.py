"""Runs a recipe from raw text to a table and a report (report.html, report.md), one run after the other.

A run is one architecture, or variant of one, with one seed: train, average, score every test set. What was finished
with the same settings is skipped, here or on another machine (its file in --results counts). What was killed goes on
from its last checkpoint: call it again. When one training fails, the others go on. Several calls may share a folder,
each with other architectures or seeds: one for each GPU (CUDA_VISIBLE_DEVICES), or for each core (OMP_NUM_THREADS=1).

Example: scripts/reproduce.sh multi30k --data ~/multi30k --archs "roformer_multi30k transformer_sinusoidal_multi30k"
"""

import argparse
import contextlib
import io
import logging
import os
from pathlib import Path
from typing import Any, Dict, List, Sequence

from .command import Failure, Parser, Signalled, run, say, split_at_dashes, whole_number, words_of
from .corpus import text
from .experiment import Experiment
from .files import write_text
from .processes import run_script
from .recipes import Recipe, load_recipe, recipe_names
from .report import build
from .results import finished
from .settings import check_flags
from .systems import read_systems

ROOT = Path(__file__).parents[2]


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options of ``scripts/reproduce.sh``; ``flags`` is what stands behind ``--``."""
    options, flags = split_at_dashes(argv)
    parser = Parser(__doc__)
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


class Reproduction:
    """A recipe with its systems and seeds.

    Args:
        args: the result of :func:`parse`.

    Raises:
        Failure: an unknown recipe, architecture or variant, or options that do not go together.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        if os.environ.get("NODES", "1") != "1":
            raise Failure(
                f"NODES={os.environ['NODES']}: several machines train with scripts/train.sh, one run at a time; unset "
                "it to prepare, score and report here"
            )
        self.args, self.recipe = args, load_recipe(args.recipe)
        check_flags(args.flags)
        recipe: Recipe = self.recipe
        self.out: Path = args.out or ROOT / "runs" / recipe.data
        self.results: Path = args.results or self.out / "results"
        self.report: Path = args.report or self.out / "report"
        # beside the runs of the recipe whose data it shares
        self.runs = self.out / recipe.name.removeprefix(f"{recipe.data}_") if recipe.data != recipe.name else self.out
        self.max_update = args.max_update or recipe.max_update
        self.systems = read_systems(words_of(args.archs or recipe.archs), args.variant, args.baseline)
        self.subsets: Dict[str, str] = {}
        """fairseq's name of a test set to the name by which people know it."""

    def run(self) -> None:
        """Raises Failure if a run is not finished at the end."""
        logging.disable(logging.INFO)  # what fairseq and matplotlib say
        self._prepare(self._raw_text())
        unfinished: List[str] = []
        experiments = self._experiments()
        for experiment in experiments:
            if experiment.is_finished():
                say(f"{experiment.name}: finished before ({experiment.file})")
                continue
            say(f"{experiment.name}: {experiment.folder}")
            if not self._run(experiment):
                unfinished.append(experiment.name)
            if experiment is not experiments[-1]:
                self._make_report(quiet=True)
        self._end(unfinished)

    def _experiments(self) -> List[Experiment]:
        """All systems with the first seed, then all with the second."""
        args = self.args
        numbers = ("max_update", "save_every", "device_tokens", "processes")
        given = [(f"--{name.replace('_', '-')}", getattr(args, name)) for name in numbers if getattr(args, name)]
        return [
            Experiment(
                self.recipe,
                system,
                seed,
                self.out / "data",
                self.runs / system.name / f"seed{seed}",
                self.results / f"{self.recipe.name}-{system.name}-seed{seed}.json",
                self.subsets,
                [word for pair in given for word in pair],
                args.flags,
                self.max_update,
            )
            for seed in args.seeds
            for system in self.systems
        ]

    def _raw_text(self) -> Path:
        """The folder with the raw text, downloaded if the recipe says so."""
        args, recipe = self.args, self.recipe
        options = [("--mirror", args.mirror), ("--news-commentary", args.news_commentary)]
        given = [word for name, value in options if value for word in (name, value)]
        if recipe.download and not args.data:
            raw = self.out / "raw"
            run_script("download.sh", "--out", raw, *given, needed=True)
            return raw
        if given:
            raise Failure(f"{given[0]} is for recipes that download, without --data")
        raw = args.data or ROOT / "data" / recipe.data
        if not raw.is_dir():
            raise Failure(f"{raw} not found: give the folder with the raw text of {recipe.data} as --data FOLDER")
        return raw

    def _prepare(self, raw: Path) -> None:
        """Prepares the data; the test sets that the recipe joins come behind the others."""
        recipe = self.recipe
        prefixes = [(name, raw / name) for name in recipe.tests]
        for count in recipe.join:
            name = f"{recipe.tests[0]}_x{count}"
            joined = self.out / "joined" / name
            text.join(str(raw / recipe.tests[0]), str(joined), (recipe.source, recipe.target), count)
            prefixes.append((name, joined))
        options: List[Any] = ["--train", raw / recipe.train, "--valid", raw / recipe.valid]
        for number, (name, prefix) in enumerate(prefixes):
            self.subsets[f"test{number or ''}"] = name
            options += ["--test", prefix]
        self.subsets["valid"] = recipe.valid  # what decisions are made by
        languages = ["--source", recipe.source, "--target", recipe.target]
        places = [*options, *languages, "--out", self.out / "data", *recipe.prepare_options]
        run_script("prepare.sh", *places, needed=True)

    def _run(self, experiment: Experiment) -> bool:
        """Whether the experiment ends well; else its result file says why."""
        try:
            experiment.run()
        except Signalled as ended:
            reason = f"ended by a signal ({ended.name})"
            experiment.collect_unfinished(reason)
            self._make_report(quiet=True)
            say(f"{reason}: call again to go on")
            raise
        except Failure as error:
            say(f"{experiment.name}: not finished: {error}")
            experiment.collect_unfinished(experiment.reason(error))
            return False
        say(f"{experiment.name}: finished, {finished.summary(experiment.result())}")
        return True

    def _make_report(self, quiet: bool = False) -> None:
        """About all runs in the folder of results, so that recipes that share data are in one report."""
        options = ["--results", str(self.results), "--out", str(self.report), "--about", self.recipe.name]
        options += ["--archs", *(system.arch for system in self.systems), "--seeds", *map(str, self.args.seeds)]
        if self.args.baseline:
            options += ["--baseline", self.args.baseline]
        with contextlib.ExitStack() as stack:
            if quiet:
                stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
                stack.enter_context(contextlib.suppress(Failure))
            build.main(options)

    def _end(self, unfinished: Sequence[str]) -> None:
        """Prints the table and makes the report."""
        experiments = self._experiments()
        results = [experiment.result() for experiment in experiments if experiment.is_finished()]
        if not results:
            self._make_report(quiet=True)
            raise Failure(f"no run succeeded: {'; '.join(unfinished)}")
        table = finished.table(results)
        write_text(self.runs / "table.txt", f"{table}\n")
        print(f"\nRecipe {self.recipe.name}\n{table}\n")
        self._make_report()
        if unfinished:
            raise Failure(f"not finished: {'; '.join(unfinished)}: see above; call again to go on")


def main(argv: Sequence[str]) -> None:
    Reproduction(parse(argv)).run()


if __name__ == "__main__":
    run(main)
