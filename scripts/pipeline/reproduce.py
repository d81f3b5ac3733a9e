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
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence

from .command import Failure, Parser, Signalled, run, say, split_at_dashes, whole_number, words_of
from .corpus import text
from .failures import last_error_in
from .files import write_text
from .recipes import Recipe, load_recipe, recipe_names
from .report import build
from .results import finished
from .results.collect import collect
from .results.file import Result, read_results, write_result
from .systems import System, read_systems
from .training.settings import check_flags

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Run:
    """One system with one seed, its folder and its result file."""

    system: System
    seed: int
    folder: Path
    file: Path

    @property
    def name(self) -> str:
        return f"{self.system.title}, seed {self.seed}"


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
        "--archs", nargs="+", help="architectures (default: the recipe's); '*_multi30k' is every family at this size"
    )
    parser.add_argument(
        "--variant",
        action="append",
        default=[],
        metavar='"NAME ARCH FLAGS"',
        help="also ARCH with these fairseq-train flags, under this name; any number of times",
    )
    parser.add_argument(
        "--seeds", nargs="+", default=["1"], help="(default: 1); all systems have the first before any has the second"
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
    args.seeds = words_of(args.seeds)
    for seed in args.seeds:
        try:
            whole_number(0)(seed)
        except argparse.ArgumentTypeError as error:
            parser.error(f"--seeds: {error}")
        if args.seeds.count(seed) > 1:
            parser.error(f"--seeds names '{seed}' twice: name it once")
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
        raw = self._raw_text()
        self._prepare(raw)
        unfinished: List[str] = []
        for entry in self._all_runs():
            if self._is_finished(entry):
                say(f"{entry.name}: finished before ({entry.file})")
                continue
            say(f"{entry.name}: {entry.folder}")
            if self._one_run(entry):
                say(f"{entry.name}: finished, {finished.summary(self._result(entry))}")
            else:
                unfinished.append(entry.name)
            self._make_report(quiet=True)
        self._end(unfinished)

    def _all_runs(self) -> Iterator[Run]:
        for seed in self.args.seeds:
            for system in self.systems:
                name = f"{self.recipe.name}-{system.name}-seed{seed}.json"
                yield Run(system, int(seed), self.runs / system.name / f"seed{seed}", self.results / name)

    def _raw_text(self) -> Path:
        """The folder with the raw text, downloaded if the recipe says so."""
        args, recipe = self.args, self.recipe
        options = [("--mirror", args.mirror), ("--news-commentary", args.news_commentary)]
        given = [word for name, value in options if value for word in (name, value)]
        if recipe.download and not args.data:
            raw = self.out / "raw"
            self._script("download.sh", "--out", raw, *given)
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
        self._script("prepare.sh", *options, *languages, "--out", self.out / "data", *recipe.prepare_options)

    def _training(self, entry: Run) -> List[Any]:
        """The options of train.sh."""
        args = self.args
        numbers = ("max_update", "save_every", "device_tokens", "processes")
        given = [(f"--{name.replace('_', '-')}", getattr(args, name)) for name in numbers if getattr(args, name)]
        options: List[Any] = ["--data", self.out / "data", "--arch", entry.system.arch, "--recipe", self.recipe.name]
        options += ["--seed", entry.seed, "--out", entry.folder, *(word for pair in given for word in pair)]
        return [*options, "--", *args.flags, *entry.system.flags]

    def _settings(self, entry: Run) -> str:
        """What tells the run from others, as train.sh says it."""
        command = [ROOT / "scripts/train.sh", "--print-settings", *self._training(entry)]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode:
            raise Failure(done.stderr.strip().splitlines()[-1].split("error: ", 1)[-1])
        return done.stdout

    def _result(self, entry: Run) -> Result:
        ((_, result),) = read_results([entry.file])
        return result

    def _is_finished(self, entry: Run) -> bool:
        if not entry.file.is_file():
            return False
        tests = list(self.subsets.values())
        return finished.is_finished(self._result(entry), self._settings(entry), self.max_update, tests)

    def _one_run(self, entry: Run) -> bool:
        """Trains, averages, scores and collects; False, with a result file that says why, if that fails."""
        data, folder = self.out / "data", entry.folder
        try:
            self._script("train.sh", *self._training(entry))
            self._script("average.sh", "--run", folder, "--data", data, "--last", self.recipe.average)
            name = f"{entry.system.title} seed {entry.seed}"
            for subset in self.subsets:
                self._script(
                    "score.sh", "--run", folder, "--data", data, "--subset", subset, "--name", name, quiet=True
                )
            self._collect(entry)
        except Signalled as ended:
            self._collect_unfinished(entry, f"ended by a signal ({ended.name})")
            self._make_report(quiet=True)
            say(f"ended by a signal ({ended.name}): call again to go on")
            raise
        except Failure as error:
            say(f"{entry.name}: not finished: {error}")
            trained = (folder / "checkpoint.pt").is_file()
            reason = str(error) if trained else last_error_in(folder / "train.log")
            self._collect_unfinished(entry, reason if reason != "no reason given" else str(error))
            return False
        return True

    def _collect(self, entry: Run) -> None:
        """Writes the result file; that of a finished run with other settings is set aside."""
        from .results.positions import write_positions

        logging.disable(logging.INFO)  # what fairseq says
        write_positions(entry.folder)
        result = collect(entry.folder, self.out / "data", self.recipe.name, self.subsets, entry.system.variant)
        if entry.file.is_file() and finished.is_finished_otherwise(
            self._result(entry), self._settings(entry), self.max_update
        ):
            old = f"{entry.file}.old-{time.strftime('%Y%m%d-%H%M%S')}"
            say(f"{entry.file} is of a run with other settings: it moves to {old}")
            entry.file.rename(old)
        write_result(result, entry.file)

    def _collect_unfinished(self, entry: Run, reason: str) -> None:
        """Writes what there is of a run; a file with scores stays as it is."""
        with contextlib.suppress(Failure, OSError):
            if not (entry.file.is_file() and self._result(entry)["tests"]):
                data, variant = self.out / "data", entry.system.variant
                write_result(collect(entry.folder, data, self.recipe.name, self.subsets, variant, reason), entry.file)

    def _make_report(self, quiet: bool = False) -> None:
        """About all runs in the folder of results, so that recipes that share data are in one report."""
        options = ["--results", str(self.results), "--out", str(self.report), "--about", self.recipe.name]
        options += ["--archs", *(system.arch for system in self.systems), "--seeds", *self.args.seeds]
        if self.args.baseline:
            options += ["--baseline", self.args.baseline]
        with contextlib.ExitStack() as stack:
            if quiet:
                stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
                stack.enter_context(contextlib.suppress(Failure))
            build.main(options)

    def _end(self, unfinished: Sequence[str]) -> None:
        """Prints the table and makes the report."""
        results = [self._result(entry) for entry in self._all_runs() if self._is_finished(entry)]
        if not results:
            self._make_report(quiet=True)
            raise Failure(f"no run succeeded: {'; '.join(unfinished)}")
        table = finished.table(results)
        write_text(self.runs / "table.txt", f"{table}\n")
        print(f"\nRecipe {self.recipe.name}\n{table}\n")
        self._make_report()
        if unfinished:
            raise Failure(f"not finished: {'; '.join(unfinished)}: see above; call again to go on")

    def _script(self, name: str, *options: Any, quiet: bool = False) -> None:
        """Runs a script of the project and hands it the signals that come.

        Raises:
            Failure: it fails; its own message was shown.
        """
        output: Optional[int] = subprocess.DEVNULL if quiet else None
        words = [str(word) for word in (ROOT / "scripts" / name, *options)]
        with subprocess.Popen(words, stdout=output) as process:
            try:
                process.wait()
            except Signalled as ended:
                process.send_signal(ended.number)
                raise
        if process.returncode:
            raise Failure(f"{name} failed (status {process.returncode})")


def main(argv: Sequence[str]) -> None:
    Reproduction(parse(argv)).run()


if __name__ == "__main__":
    run(main)
