"""One system with one seed: trains, averages, scores every test set, and collects one result file."""

import contextlib
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from .command import Failure
from .failures import last_error_in
from .lock import locked
from .paths import SCRIPTS
from .processes import run_script
from .recipes import Recipe
from .results import finished
from .results.collect import collect
from .results.file import Result, read_result, set_aside, write_result
from .steps import read_stamp
from .systems import System


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
    max_update: int = 0

    @property
    def name(self) -> str:
        return f"{self.system.title}, seed {self.seed}"

    def result(self) -> Result:
        """The content of the result file.

        Raises:
            Failure: it is missing or damaged.
        """
        return read_result(self.file)

    @property
    def train_options(self) -> List[Any]:
        """Options of train.sh."""
        places = ["--data", self.data, "--arch", self.system.arch, "--out", self.folder]
        what = ["--recipe", self.recipe.option, "--seed", self.seed, *self.options]
        return [*places, *what, "--", *self.flags, *self.system.flags]

    @property
    def average_options(self) -> List[Any]:
        """Options of average.sh."""
        return ["--run", self.folder, "--data", self.data, "--last", self.recipe.average]

    def score_options(self, subset: str) -> List[Any]:
        """Options of score.sh or evaluate.sh for a test set with fairseq's name ``subset``."""
        name = f"{self.system.title} seed {self.seed}"
        return ["--run", self.folder, "--data", self.data, "--subset", subset, "--name", name]

    def is_finished(self) -> bool:
        """Whether the result file is from this run, here or on another machine.

        Until the data are prepared here, the data of the result count as the same.
        """
        if not self.file.is_file():
            return False
        wanted = (self._settings(), self.max_update, self.recipe.average)
        return finished.is_finished(self.result(), *wanted, list(self.subsets.values()))

    def run(self) -> None:
        """Does the steps that are not done yet.

        Raises:
            Failure: a step fails.
        """
        run_script("train.sh", *self.train_options)
        run_script("average.sh", *self.average_options)
        for subset in self.subsets:
            run_script(self.recipe.kind.evaluate, *self.score_options(subset), quiet=True)
        self.collect()

    def collect(self) -> None:
        """Writes the result file; moves one of a finished run with other settings aside.

        Raises:
            Failure: an output of the run is missing.
        """
        from .results.positions import positions_of

        result = self._collected(positions=positions_of(self.folder))
        wanted = (self._settings(), self.max_update, self.recipe.average)
        if self.file.is_file() and finished.is_finished_otherwise(self.result(), *wanted):
            set_aside(self.file)
        write_result(result, self.file)

    def reason(self, error: Failure) -> str:
        """Why a run failed: the last error in the log of its training, or else ``error``."""
        log = self.folder / "train.log"
        return str(error) if read_stamp(self.folder, "train") or not log.is_file() else last_error_in(log)

    def missing(self) -> str:
        """Why a run is not finished, from its folder: the last error of its training, or the step that is missing."""
        try:
            self._collected()
        except Failure as error:
            return self.reason(error)
        return "not collected"

    def collect_unfinished(self, reason: str) -> None:
        """Writes a result file with the reason why a run failed or was interrupted; a file with scores stays."""
        with contextlib.suppress(Failure, OSError):
            write_result(self._collected(unfinished=reason), self.file)

    def _settings(self) -> str:
        """The settings that tell the run from others, as train.sh prints them."""
        command = [SCRIPTS / "train.sh", "--print-settings", *self.train_options]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode:
            raise Failure((done.stderr.strip() or "train.sh failed").splitlines()[-1].split("error: ", 1)[-1])
        return done.stdout

    def _collected(self, unfinished: str = "", positions: Optional[Dict[str, Any]] = None) -> Result:
        with locked(self.folder):
            variant, task = self.system.variant, self.recipe.kind
            return collect(
                *(self.folder, self.data, self.recipe.name, self.subsets, variant, unfinished),
                *(task.settings, task.metric, positions),
            )
