"""Systems, and one system with one seed: its steps. Everything that trains walks them."""

import contextlib
import io
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from .command import Failure, Signalled, as_failure, say
from .files import write_json
from .lock import locked
from .processes import last_error_in
from .recipes import Recipe
from .results import Result, collect, read_result, translations, write_translations
from .scoring import evaluate, score
from .scoring.table import table
from .settings import check_flags, flags_in
from .steps import read_stamp
from .training import average
from .training.train import Training, parse


@dataclass(frozen=True)
class System:
    """An architecture, or a variant of one: the same architecture with further flags and a name of its own."""

    arch: str
    variant: str = ""
    flags: Tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name in files and folders."""
        return f"{self.arch}-{self.variant}" if self.variant else self.arch

    @property
    def title(self) -> str:
        """The name in tables."""
        return f"{self.arch} ({self.variant})" if self.variant else self.arch


def read_systems(archs: Sequence[str], variants: Sequence[str], baseline: Optional[str]) -> List[System]:
    """The systems that a user names.

    Args:
        archs: architectures, or patterns of them.
        variants: each is ``NAME ARCH FLAGS``.
        baseline: an architecture that the function only checks.
    """
    from fairseq_rope.architectures import match_architectures  # imports fairseq

    read = [_read_variant(text) for text in variants]
    for system in read:
        if sum(other.name == system.name for other in read) > 1:
            raise Failure(f"--variant names '{system.variant} {system.arch}' twice: name it once")
    with as_failure():
        systems = [System(arch) for arch in match_architectures(archs)] + read
        match_architectures([system.arch for system in read] + ([baseline] if baseline else []))
    return systems


def _read_variant(text: str) -> System:
    name, arch, *flags = [*text.split(), "", ""]
    flags = [flag for flag in flags if flag]
    if not (re.fullmatch(r"[A-Za-z0-9_.]+", name) and re.fullmatch(r"\w+", arch) and flags) or set(text) & set("'\"\\"):
        raise Failure(
            '--variant is "NAME ARCH FLAGS" without further quotes, as in "half roformer_base --rope-layout=half", not '
            f"'{text}'; NAME has letters, digits, _ and . alone"
        )
    check_flags(flags_in(flags))
    return System(arch, name, tuple(flags))


@dataclass(frozen=True)
class Experiment:
    """A run of a recipe."""

    recipe: Recipe
    system: System
    seed: int
    data: Path
    """Output of prepare.sh."""
    folder: Path
    """The folder of the run."""
    file: Path
    """The result file."""
    subsets: Dict[str, str]
    """fairseq's name of a test set, to its real name."""
    options: Sequence[Any] = ()
    """Further options of train.sh."""
    flags: Sequence[str] = ()
    """Further flags of fairseq-train."""

    @property
    def name(self) -> str:
        return f"{self.system.title}, seed {self.seed}"

    def run(self) -> None:
        """All steps, each as far as it is not done with the same settings; raises Failure if one fails."""
        self.train()
        self.finish()

    def train(self) -> None:
        self.training().run()

    def finish(self) -> None:
        """Averages, scores and collects."""
        options = ["--run", self.folder, "--data", self.data, "--last", self.recipe.score.average]
        average.main(list(map(str, options)))
        self._score()
        self._collect()

    def training(self) -> Training:
        places = ["--data", self.data, "--arch", self.system.arch, "--out", self.folder]
        what = ["--recipe", self.recipe.option, "--seed", self.seed, *self.options]
        return Training(parse([*map(str, [*places, *what]), "--", *self.flags, *self.system.flags]))

    def _score(self) -> None:
        main = evaluate.main if self.recipe.task.is_text else score.main
        for subset in self.subsets:
            options = ["--run", self.folder, "--data", self.data, "--subset", subset, *self.recipe.score.search]
            with contextlib.redirect_stdout(io.StringIO()):  # the table of all runs comes at the end
                main(list(map(str, options)))

    def is_finished(self) -> bool:
        """Whether the result file is from this run and has scores of this search, here or on another machine.

        Until the data are prepared here, the data of the result count as the same.
        """
        result, search = self._result(), self.recipe.score.settings
        if not result or not self._has_made(result):
            return False
        scored = {name for name, test in result.tests.items() if test.settings.split(", ")[: len(search)] == search}
        return set(self.subsets.values()) <= scored

    def _result(self) -> Optional[Result]:
        """The result, if there is one with scores."""
        result = read_result(self.file) if self.file.is_file() else None
        return result if result and not result.unfinished else None

    def _has_made(self, result: Result) -> bool:
        """Whether a result is from a run with the same settings, here or on another machine."""
        training = self.training()
        return result.is_from(training.settings_like(result.settings), training.max_update, self.recipe.score.average)

    def _collect(self) -> None:
        """Writes the result file; moves one of a finished run with other settings away."""
        result, before = self._collected(), self._result()
        if before and not self._has_made(before):
            old = f"{self.file}.old-{time.strftime('%Y%m%d-%H%M%S')}"
            say(f"{self.file} is of a run with other settings: it moves to {old}")
            self.file.rename(old)
        write_json(self.file, result)
        if rows := translations(self.folder, self.data, next(iter(self.subsets))):
            write_translations(rows, self.file.with_suffix(".tsv"))
        with contextlib.suppress(ValueError):  # of matplotlib that is missing, and of models without such a picture
            self._draw_positions()

    def _draw_positions(self) -> None:
        """Draws what positions add to the logits, for the report."""
        from fairseq_rope.inspection import pictures
        from fairseq_rope.packages import package

        package("matplotlib")
        drawn = pictures.draw_bias(self.folder, None, length=32, sentences=64, seed=1, by_distance=False)
        pictures.save_picture(drawn, self.file.with_suffix(".png"))

    def reason(self) -> str:
        """Why a run is not finished, as its folder tells: the last error of its training, or what is missing."""
        log = self.folder / "train.log"
        if read_stamp(self.folder, "train"):
            return "trained, and not scored"
        return last_error_in(log) if log.is_file() else "not trained"

    def collect_unfinished(self, reason: str) -> None:
        """Writes a result file with the reason why a run failed or was interrupted; a file with scores stays."""
        with contextlib.suppress(Failure, OSError):
            if not self._result():
                write_json(self.file, self._collected(unfinished=reason))

    def _collected(self, unfinished: str = "") -> Dict[str, Any]:
        what = (self.recipe.name, self.subsets, self.system.variant, unfinished, self.recipe.task.metric)
        with locked(self.folder):
            return collect(self.folder, self.data, *what)


def walk(experiments: Sequence[Experiment], report: Callable[[], object] = lambda: None) -> None:
    """Runs one experiment after the other, as far as they are not finished; one that fails does not stop the others.

    Args:
        report: called between them, and before a signal ends the command.
    """
    for experiment in experiments:
        try:
            if experiment.is_finished():
                say(f"{experiment.name}: finished before ({experiment.file})")
                continue
            say(f"{experiment.name}: {experiment.folder}")
            experiment.run()
            say(f"{experiment.name}: finished, {read_result(experiment.file).summary}")
        except Signalled as ended:
            reason = f"ended by a signal ({ended.name})"
            experiment.collect_unfinished(reason)
            report()
            say(f"{reason}: call again to go on")
            raise
        except (Failure, OSError) as error:
            say(f"{experiment.name}: not finished: {error}")
            experiment.collect_unfinished(str(error))
        if experiment is not experiments[-1]:
            report()


def table_of(experiments: Sequence[Experiment]) -> str:
    """The scores of finished experiments."""
    read = [(run.name, read_result(run.file)) for run in experiments]
    return table([(run, name, test.scores) for run, result in read for name, test in result.tests.items()])
