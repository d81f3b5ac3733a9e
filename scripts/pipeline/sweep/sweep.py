"""A sweep: the systems and seeds of a recipe, their folders, and the options of every script.

``scripts/reproduce.sh`` runs one training after the other, ``scripts/Snakefile`` several at a time.
"""

import argparse
import contextlib
import io
import os
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, List

from ..afterwards import afterwards
from ..command import Failure, words_of
from ..corpus import text
from ..corpus.documents import find_files
from ..experiment import Experiment
from ..files import read_shaped, sha256, write_text
from ..paths import ROOT
from ..prepared import NAME
from ..recipes import load_recipe
from ..report import build
from ..results import finished
from ..settings import check_average, check_flags
from ..shape import COMMAND
from ..steps import read_stamp
from ..systems import read_systems

OWN = ("data", "raw", "joined", "results", "report")
"""The folders in the output that hold no runs."""


class Sweep:
    """A recipe with its systems and seeds.

    Args:
        args: the result of :func:`.options.parse`.

    Raises:
        Failure: a recipe, architecture or variant is unknown, or options do not go together, or a training would make
            fewer checkpoints than are to be averaged.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        if os.environ.get("NODES", "1") != "1":
            raise Failure(
                f"NODES={os.environ['NODES']}: several machines train with scripts/train.sh, one run at a time; unset "
                "it to prepare, score and report here"
            )
        self.args, self.recipe = args, load_recipe(args.recipe)
        check_flags(args.flags)
        recipe = self.recipe
        if recipe.kind.trained_by == "finetune.sh":
            raise Failure(f"the recipe {recipe.name} is for scripts/finetune.sh")
        if not recipe.tests:
            raise Failure(
                f"the recipe {recipe.name} names no text: give it to scripts/train.sh, or write a recipe that extends "
                "it and names train, valid and tests (docs/own-data.md)"
            )
        check_average(args.max_update or recipe.max_update, args.save_every or recipe.save_every, recipe.average)
        self.out: Path = args.out or ROOT / "runs" / recipe.data
        self.data = self.out / "data"
        self.results: Path = args.results or self.out / "results"
        self.report: Path = args.report or self.out / "report"
        for folder in (self.out, self.results, self.report):
            if folder.exists() and not folder.is_dir():
                raise Failure(f"{folder} is no folder: name another one")
        # beside the runs of the recipe with the same data
        self.runs = self.out / recipe.name.removeprefix(f"{recipe.data}_") if recipe.data != recipe.name else self.out
        if self.runs.parent == self.out and self.runs.name in OWN:
            raise Failure(f"the recipe {recipe.name} would train in {self.runs}, which has other files: rename it")
        self.downloads = recipe.download and not args.data
        self.raw: Path = self.out / "raw" if self.downloads else args.data or recipe.raw
        given = [("--mirror", args.mirror), ("--news-commentary", args.news_commentary)]
        options = [word for name, value in given if value for word in (name, value)]
        if options and not self.downloads:
            raise Failure(f"{options[0]} is for recipes that download, without --data")
        self.download_options: List[Any] = ["--out", self.raw, *options]
        self.joined = {f"{Path(recipe.tests[0]).name}_x{count}": count for count in recipe.join}
        """The test sets of joined sentences, to the number of sentences joined."""
        tests = [*recipe.tests, *self.joined]
        self.subsets = {f"test{number or ''}": name for number, name in enumerate(tests)}
        """fairseq's name of a test set, to its real name."""
        self.subsets["valid"] = recipe.valid  # decisions are made by it
        if len(set(self.subsets.values())) < len(self.subsets):
            names = ", ".join(self.subsets.values())
            raise Failure(
                f"the recipe {recipe.name} has two sets of one name, among them valid and the joined ones: {names}"
            )
        self.systems = read_systems(words_of(args.archs or recipe.archs), args.variants, args.baseline)
        self.experiments = self._experiments()
        self._check_options()

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
                self.data,
                self.runs / system.name / f"seed{seed}",
                self.results / f"{self.recipe.name}-{system.name}-seed{seed}.json",
                self.subsets,
                [word for pair in given for word in pair],
                args.flags,
                args.max_update or self.recipe.max_update,
            )
            for seed in args.seeds
            for system in self.systems
        ]

    def _check_options(self) -> None:
        """Raises Failure if fairseq cannot read the flags of a system: it would end hours later."""
        from ..training.fairseq_options import parse  # imports fairseq

        kind = self.recipe.kind  # the choices of train.sh, whose parts have options of their own
        own = ["--optimizer", "fused_adam", "--lr-scheduler", "polynomial_decay" if kind.is_text else "inverse_sqrt"]
        own += ["--criterion", kind.criterion or "fused_label_smoothed_cross_entropy", "--task", self.recipe.task]
        for system in self.systems:
            try:
                parse([*own, "--arch", system.arch, *self.recipe.train_flags, *self.args.flags, *system.flags])
            except Failure as error:
                raise Failure(f"{system.title}: {error}") from None

    @property
    def is_prepared(self) -> bool:
        """Whether the data are prepared, so results can be compared by them."""
        return (self.data / "prepare.json").is_file()

    def check_inputs(self) -> None:
        """Raises Failure if a result file is damaged, or if the raw text is missing and the recipe does not download
        it."""
        for experiment in self.experiments:
            if experiment.file.is_file():
                experiment.result()
        if not self.downloads and not self.raw.is_dir():
            raise Failure(
                f"{self.raw} not found: give the folder with the raw text of {self.recipe.data} as --data FOLDER"
            )

    def join(self) -> None:
        """Writes the test sets of joined sentences."""
        recipe = self.recipe
        for name, count in self.joined.items():
            first, langs = self.raw / recipe.tests[0], (recipe.source, recipe.target)
            text.join(str(first), str(self.out / "joined" / name), langs, count)

    @property
    def prepare_options(self) -> List[Any]:
        """Options of the script that prepares; the test sets of joined sentences come last."""
        recipe = self.recipe
        tests = [self.raw / name for name in recipe.tests] + [self.out / "joined" / name for name in self.joined]
        sets = ["--train", self.raw / recipe.train, "--valid", self.raw / recipe.valid]
        sets += [word for test in tests for word in ("--test", test)]
        languages = [] if recipe.kind.is_text else ["--source", recipe.source, "--target", recipe.target]
        return [*sets, *languages, "--out", self.data, *recipe.prepare_options]

    @property
    def report_options(self) -> List[str]:
        """Options of report.sh, for all runs in the folder of results: recipes that share data are in one report."""
        options = ["--results", str(self.results), "--out", str(self.report), "--about", self.recipe.name]
        options += [f"--archs={system.arch}" for system in self.systems if not system.variant]
        options += ["--seeds", *map(str, self.args.seeds)]
        return options + (["--baseline", self.args.baseline] if self.args.baseline else [])

    def make_report(self, quiet: bool = False) -> None:
        """Makes the report; if ``quiet``, without output, also when this fails."""
        with contextlib.ExitStack() as stack:
            if quiet:
                stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
                stack.enter_context(contextlib.suppress(Failure))
            build.main(self.report_options)

    def _is_prepared_otherwise(self) -> bool:
        """Whether the data were prepared with other options than the recipe has now."""
        words = shlex.split(read_shaped(self.data / NAME, {"command": COMMAND}, f"remove {self.data}")["command"])
        if self._has_other_text():
            return True
        options, own = words[words.index("--out") + 2 :] if "--out" in words else words, self.recipe.prepare_options
        return options[: len(own)] != own or options[len(own) :][:1] not in ([], ["--workers"])

    def _has_other_text(self) -> bool:
        """Whether the raw text, if it is here, is not the one that was prepared."""
        recipe, settings = self.recipe, str(read_stamp(self.data, "copy").get("settings", ""))
        prepared = [line.split() for line in settings.splitlines()]
        names = [self.raw / name for name in (recipe.train, recipe.valid, *recipe.tests)]
        try:
            if recipe.kind.is_text:
                sets = [[sha256(file) for file in find_files(str(name))] for name in names]
                return [words[3:] for words in prepared if words[:1] == ["text"]] != sets
            langs = (recipe.source, recipe.target)
            words = [
                "input",
                "-".join(langs),
                *(sha256(text.find(str(name), lang)) for name in names for lang in langs),
            ]
        except text.CorpusError:  # it is not here: the results count
            return False
        return [line[: len(words)] for line in prepared[:1]] != [words]  # joined sets follow, made from these

    def unfinished(self) -> List[Experiment]:
        """The runs without a result file of their own; all of them, if the data have to be prepared anew."""
        if self.is_prepared and self._is_prepared_otherwise():
            return self.experiments
        with ThreadPoolExecutor() as pool:  # each one asks train.sh for its settings
            states = list(pool.map(Experiment.is_finished, self.experiments))
        return [experiment for experiment, finished in zip(self.experiments, states) if not finished]

    def note_unfinished(self) -> None:
        """Writes a result file with the reason for each run that is not finished."""
        for experiment in self.unfinished():
            experiment.collect_unfinished(experiment.missing())

    def end(self, report: bool = True) -> None:
        """Prints the table, some translations and the next commands and, if ``report``, makes the report.

        Raises:
            Failure: a run is not finished.
        """
        unfinished = self.unfinished()
        names = "; ".join(experiment.name for experiment in unfinished)
        if len(unfinished) == len(self.experiments):
            self.make_report(quiet=True)
            raise Failure(f"no run succeeded: {names}")
        results = [experiment.result() for experiment in self.experiments if experiment not in unfinished]
        table = finished.table(results)
        write_text(self.runs / "table.txt", f"{table}\n")
        print(f"\nRecipe {self.recipe.name}\n{table}\n")
        if report:
            self.make_report()
        if said := afterwards(self.experiments):
            print(f"\n{said}")
        if unfinished:
            raise Failure(f"not finished: {names}: see above; call again to go on")
