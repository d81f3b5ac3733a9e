"""Result files: JSON of one run, made by ``scripts/reproduce.sh`` and read by the report."""

import shlex
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import msgspec
from msgspec import Struct

from ..command import Failure
from ..files import read_json
from ..provenance import Record
from ..scoring.metrics import METRICS, first_metric
from ..scoring.scored import Scored
from ..settings import normalised

FORMAT = "fairseq_rope result 1"
"""The entry ``format``, which identifies a result file."""

REMEDY = "remove it, and run scripts/reproduce.sh again"


class Training(Struct):
    """Settings and costs of the training; None where they are not known."""

    parameters: int
    updates: int
    averaged: int
    devices: List[str]
    target_tokens_per_update: Optional[float] = None


class Result(Struct):
    """The entries of a result file that are read."""

    format: str
    recipe: str
    variant: str
    arch: str
    seed: int
    run: Record
    training: Training
    data: Dict[str, Any]
    curve: Dict[str, Dict[str, List[Any]]]  # "train" and "valid": "updates" and "nll" in bits
    tests: Dict[str, Scored]
    settings: str = ""
    unfinished: str = ""  # why there are no scores
    grid: List[Dict[str, float]] = []  # trainings of a fine-tuning: learning rate, seed, metrics
    pretrained: Dict[str, Union[int, str]] = {}  # the model before fine-tuning
    file: str = ""  # where it was read

    @property
    def name(self) -> str:
        return f"{self.arch} ({self.variant})" if self.variant else self.arch

    @property
    def wanted_updates(self) -> int:
        """How many updates the run may have, which may end earlier (``--patience``); if unknown, how many it has."""
        return int(self.run.max_update or self.training.updates)

    @property
    def starts_with(self) -> str:
        """The training of a recipe, ``RECIPE/ARCH``, that this one begins with; empty without one."""
        name = self.run.start.partition(", SHA-256")[0]
        return name if "/" in name else ""

    @property
    def summary(self) -> str:
        """The first metric of each test set."""
        metric = METRICS[key := first_metric(next(iter(self.tests.values())).scores)]
        scores = (f"{name} {test.scores[key]['score']:.2f}" for name, test in self.tests.items())
        return f"{metric.name} {', '.join(scores)}"

    def is_from(self, settings: str, max_update: int, average: int) -> bool:
        """Whether it is from a run with these settings, here or on another machine.

        Args:
            settings: the lines of RUN/settings; if the data are not prepared here, without their line.
            average: how many checkpoints the model is the mean of.
        """
        same = set(settings.splitlines()) <= set(self.settings.splitlines())
        return same and self.training.averaged == average and self.wanted_updates == max_update


def read_result(path: Path) -> Result:
    """The content of a result file; raises Failure if it is damaged, inconsistent, or no result."""
    return _result(path, read_json(path, REMEDY))


def _result(path: Path, content: Any) -> Result:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise Failure(f"{path} is no result file of version '{FORMAT}': {REMEDY}")
    try:
        result = msgspec.convert(content, Result, strict=False)  # in the record of the run, numbers are in quotes
    except msgspec.ValidationError as error:
        raise Failure(f"{path}: {error}: {REMEDY}") from None
    for name, test in result.tests.items():
        if reason := test.inconsistency:
            raise Failure(f"{path} {reason} (test set {name}): {REMEDY}")
    result.file, result.settings = str(path), normalised(result.settings)
    return result


def read_results(paths: Sequence[Path]) -> Tuple[List[Result], List[str], List[Tuple[Path, Any]]]:
    """Reads the named files and those in the named folders, each once and in the order of their names: the results, why
    others cannot be used, and all other JSON files, such as benchmarks."""
    files = [file for path in paths for file in (path.glob("*.json") if path.is_dir() else [path])]
    results, broken, others = [], [], []
    for file in sorted({file.resolve(): file for file in files}.values()):
        try:
            content = read_json(file, REMEDY)
            if isinstance(content, dict) and str(content.get("format")).startswith(FORMAT.rpartition(" ")[0]):
                results.append(_result(file, content))
            else:
                others.append((file, content))
        except Failure as error:
            broken.append(str(error))
    return results, broken, others


def without_folders(command: str, places: Mapping[str, str]) -> str:
    """A command without the folders of this machine: ``places`` has for each option what stands for each of its values,
    where ``{name}`` is their last part."""
    words, place = [], ""
    for word in shlex.split(command):
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            place = places.get(name, "")
            if place and equals:
                word, place = f"{name}={place.format(name=Path(value).name)}", ""
        elif place:
            word = place.format(name=Path(word).name)
        words.append(word)
    return shlex.join(words)
