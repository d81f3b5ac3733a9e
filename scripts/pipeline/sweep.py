"""The systems and seeds of a recipe, their folders, and what comes before and after all runs.

``scripts/reproduce.sh`` runs one training after the other, ``scripts/Snakefile`` several at a time.
"""

import argparse
import contextlib
import io
import os
import shlex
import textwrap
import time
from pathlib import Path
from typing import List, Sequence

from .command import Failure
from .corpus import blocks, lines, prepare, prepare_text, wmt14
from .experiment import Experiment, System, read_systems, table_of
from .files import read_json, write_text
from .paths import ROOT, SCRIPTS
from .prepared import NAME
from .recipes import Recipe, load_recipe
from .report import build
from .results import translations
from .settings import check_average, check_flags, flags_in, words_in

COLUMNS = 80
"""Width of what is printed."""


class Sweep:
    """A recipe with its systems and seeds, from the options that :func:`.reproduce.parse` gives."""

    def __init__(self, args: argparse.Namespace) -> None:
        if os.environ.get("NODES", "1") != "1":
            raise Failure(
                f"NODES={os.environ['NODES']}: several machines train with scripts/train.sh, one run at a time; unset "
                "it to prepare, score and report here"
            )
        self.args, self.recipe = args, load_recipe(args.recipe)
        check_flags(flags_in(args.flags))
        recipe = self.recipe
        if not recipe.shares:
            remedy = "give it to scripts/finetune.sh"
            if not recipe.grid:
                remedy = "give it to scripts/train.sh, or extend it by one that names train, valid and tests"
            raise Failure(f"the recipe {recipe.name} names no text: {remedy}")
        self.out: Path = args.out or ROOT / "runs" / recipe.shares
        self.data = self.out / "data"
        self.results: Path = args.results or self.out / "results"
        self.report: Path = args.report or self.out / "report"
        self.runs = self.runs_of(recipe)
        self.downloads = recipe.data.download and not args.data
        self.raw: Path = self.out / "raw" if self.downloads else args.data or recipe.raw
        self.joined = {f"{Path(recipe.data.tests[0]).name}_x{count}": count for count in recipe.data.join}
        """The test sets of joined sentences, to the number of sentences joined."""
        tests = [*recipe.data.tests, *self.joined]
        self.subsets = {f"test{number or ''}": name for number, name in enumerate(tests)}
        """fairseq's name of a test set, to its real name."""
        if "document-tokens" in recipe.prepare:
            self.subsets |= blocks.titles(self.subsets)
        self.subsets["valid"] = recipe.data.valid  # decisions are made by it
        archs = " ".join(args.archs or recipe.archs).split()  # given as one text or as several
        self.systems = read_systems(archs, args.variants, args.baseline)
        self.experiments = [self._experiment(system, seed) for seed in args.seeds for system in self.systems]
        """All systems with the first seed, then all with the second."""
        if not self.experiments:  # mostly a variable that is not set
            raise Failure("there is nothing to train: --archs without --variant, or --seeds, is empty")
        if not args.only:
            self._check_options()

    def runs_of(self, recipe: Recipe) -> Path:
        """The folder of a recipe's runs, beside those of the recipe with the same data."""
        return self.out / (recipe.name.removeprefix(f"{recipe.shares}_") if recipe.shares != recipe.name else "")

    def _start(self, seed: int) -> Path:
        """The averaged run with which one with this seed begins."""
        name, _, arch = self.recipe.start.rpartition("/")
        return self.runs_of(load_recipe(name)) / arch / f"seed{seed}"

    def _experiment(self, system: System, seed: int) -> Experiment:
        args = self.args
        numbers = ("max_update", "save_every", "device_tokens", "processes")
        given = [(f"--{name.replace('_', '-')}", getattr(args, name)) for name in numbers if getattr(args, name)]
        given += [("--from", self._start(seed))] if self.recipe.start else []
        return Experiment(
            self.recipe,
            system,
            seed,
            self.data,
            self.runs / system.name / f"seed{seed}",
            self.results / f"{self.recipe.name}-{system.name}-seed{seed}.json",
            self.subsets,
            [word for pair in given for word in pair],
            args.flags,
        )

    def _check_options(self) -> None:
        """Raises Failure if a training could not end well: it would hours later."""
        from .training.fairseq_options import parse  # imports fairseq

        for experiment in self.experiments[: len(self.systems)]:
            training = experiment.training()
            check_average(training.max_update, training.save_every, self.recipe.score.average)
            try:
                parse(words_in(training.flags))
            except Failure as error:
                raise Failure(f"{experiment.system.title}: {error}") from None

    def check_inputs(self) -> None:
        """Raises Failure if a run with which others begin is missing, or the raw text is and is not downloaded."""
        name, _, system = self.recipe.start.rpartition("/")
        arch, _, variant = system.partition("-")
        chosen = f"--archs '' --variant '{variant} {arch} FLAGS'" if variant else f"--archs {arch}"
        for seed in self.args.seeds if name else ():
            if not (self._start(seed) / "checkpoint.pt").is_file():
                places = {"--data": self.args.data, "--out": self.args.out}
                given = [f" {option} {shlex.quote(str(path))}" for option, path in places.items() if path]
                first = f"scripts/reproduce.sh {name} {chosen} --seeds {seed}{''.join(given)}"
                raise Failure(f"{self._start(seed)} has no averaged run, with which {self.recipe.name} begins: {first}")
        if not self.downloads and not self.raw.is_dir():
            raise Failure(
                f"{self.raw} not found: give the folder with the raw text of {self.recipe.shares} as --data FOLDER"
            )

    def prepare(self) -> None:
        """Downloads the text, joins the sentences of test sets, and prepares the data, as far as that is not done."""
        self.check_inputs()
        if self.downloads:
            wmt14.main(["--out", str(self.raw)])
        recipe = self.recipe.data
        for name, count in self.joined.items():
            first, langs = self.raw / recipe.tests[0], (recipe.source, recipe.target)
            lines.join(str(first), str(self.out / "joined" / name), langs, count)
        main = prepare_text.main if self.recipe.task.is_text else prepare.main
        main([*self.prepare_options, *(["--workers", str(self.args.workers)] if self.args.workers else [])])
        newest = max([time.time_ns(), *(file.stat().st_mtime_ns for file in self._texts)])
        os.utime(self.data / NAME, ns=(newest, newest))  # newer than the raw text, also if clocks differ

    @property
    def prepare_options(self) -> List[str]:
        """Options of the script that prepares, without ``--workers``; the test sets of joined sentences come last."""
        recipe = self.recipe.data
        tests = [self.raw / name for name in recipe.tests] + [self.out / "joined" / name for name in self.joined]
        sets = ["--train", self.raw / recipe.train, "--valid", self.raw / recipe.valid]
        sets += [word for test in tests for word in ("--test", test)]
        languages = [] if self.recipe.task.is_text else ["--source", recipe.source, "--target", recipe.target]
        return list(map(str, [*sets, *languages, "--out", self.data, *self.recipe.prepare_options]))

    @property
    def report_options(self) -> List[str]:
        """Options of report.sh, for all runs in the folder of results: recipes that share data are in one report."""
        options = ["--results", str(self.results), "--out", str(self.report)]
        return options + (["--baseline", self.args.baseline] if self.args.baseline else [])

    def make_report(self, quiet: bool = False) -> None:
        """Makes the report; if ``quiet``, without output, also when this fails."""
        with contextlib.ExitStack() as stack:
            if quiet:
                stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
                stack.enter_context(contextlib.suppress(Failure, OSError))
            build.main(self.report_options)

    @property
    def _texts(self) -> List[Path]:
        """The files of the raw text that are there."""
        sets = [self.raw / name for name in (self.recipe.data.train, self.recipe.data.valid, *self.recipe.data.tests)]
        files = [file for path in sets for file in (path, *path.parent.glob(f"{path.name}.*"))]
        return [file for file in files if file.exists()]

    def _is_prepared_otherwise(self) -> bool:
        """Whether the data were prepared of other files or with other options than the recipe has, or text is newer."""
        prepared, own = self.data / NAME, self.prepare_options
        if not prepared.is_file():
            return False
        options = shlex.split(read_json(prepared).get("command", ""))[1:]
        if not self.raw.is_dir() and "--out" in options:  # without text, which files they were does not count
            options, own = (words[words.index("--out") + 2 :] for words in (options, own))
        newer = any(file.stat().st_mtime_ns > prepared.stat().st_mtime_ns for file in self._texts)
        return newer or options[: len(own)] != own or options[len(own) :][:1] not in ([], ["--workers"])

    def unfinished(self) -> List[Experiment]:
        """The runs without a result file of their own; all of them, if the data have to be prepared anew."""
        if self._is_prepared_otherwise():
            return self.experiments
        return [experiment for experiment in self.experiments if not experiment.is_finished()]

    def note_unfinished(self) -> None:
        """Writes a result file with the reason for each run that is not finished."""
        for experiment in self.unfinished():
            experiment.collect_unfinished(experiment.reason())

    def end(self, report: bool = True) -> None:
        """Prints the table, some translations and the next commands and, if ``report``, makes the report."""
        unfinished = self.unfinished()
        names = "; ".join(experiment.name for experiment in unfinished)
        if len(unfinished) == len(self.experiments):
            self.make_report(quiet=True)
            raise Failure(f"no run succeeded: {names}")
        done = [experiment for experiment in self.experiments if experiment not in unfinished]
        scores = table_of(done)
        write_text(self.runs / "table.txt", f"{scores}\n")
        print(f"\nRecipe {self.recipe.name}\n{scores}\n")
        if report:
            self.make_report()
        if said := afterwards(self.experiments):
            print(f"\n{said}")
        if unfinished:
            raise Failure(f"not finished: {names}: see above; call again to go on")


def afterwards(experiments: Sequence[Experiment]) -> str:
    """Sample translations of the first of these runs, and commands to try on it; empty if it ran elsewhere."""
    for experiment in experiments:
        samples = translations(experiment.folder, experiment.data, next(iter(experiment.subsets)))
        if samples:
            return "\n".join([*_samples(experiment, samples), "", *_commands(experiment.folder, samples[0][0])])
    return ""


def _samples(experiment: Experiment, samples: Sequence[Sequence[str]]) -> List[str]:
    test = next(iter(experiment.subsets.values()))
    lines = [f"Translations of {test} by {experiment.name}:"]
    for sample in samples:
        lines.append("")
        for name, text in zip(("source", "translation", "reference"), sample):
            text = "".join(letter for letter in text if letter.isprintable()) or "(empty)"
            lines += textwrap.wrap(text, COLUMNS, initial_indent=f"  {name:<13}", subsequent_indent=" " * 15)
    return lines


def _commands(run: Path, sentence: str) -> List[str]:
    translate = f"{_shown(SCRIPTS / 'translate.sh')} {_shown(run)}"
    head = "To translate a sentence, or what you type (Ctrl-D ends):"
    return [head, f"  echo {shlex.quote(sentence)} | {translate}", f"  {translate}"]


def _shown(path: Path) -> str:
    """A path as the user would type it here."""
    path, here = Path(os.path.abspath(path)), Path.cwd()
    return shlex.quote(str(path.relative_to(here) if here in path.parents else path))
