"""Result files: JSON of one run, made by ``scripts/reproduce.sh`` and read by the report."""

import shlex
import time
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

import msgspec
from msgspec import Struct

from ..command import Failure, say
from ..files import read_json, write_json
from ..scoring.scored import BLEU
from ..scoring.statistics import COLUMNS, ROUNDED, bleu, rows
from ..settings import normalised

FORMAT = "fairseq_rope result 1"
"""The entry ``format``, which identifies a result file."""

REMEDY = "remove it, and run scripts/reproduce.sh again"
Content = TypeVar("Content")


class Run(Struct):
    """How a run was made: what is read of ``run.json``."""

    command: str
    flags: str
    versions: Dict[str, str]
    machine: str
    commit: Optional[str] = None
    max_update: Union[int, str] = 0
    threads: Union[int, str] = ""
    jobs: Union[int, str] = ""  # trainings that shared the machine
    batch: str = ""


class Training(Struct):
    """Settings and costs of the training; None where they are not known."""

    parameters: int
    updates: int
    averaged: int
    devices: List[str]
    target_tokens_per_update: Optional[float] = None
    target_tokens_per_second: Optional[float] = None
    rate: str = "mean"  # of the tokens per second; in older files with validation and pauses


class Test(Struct):
    """One test set; ``statistics`` has the columns of :mod:`..scoring.statistics`."""

    subset: str
    sentences: int
    settings: str
    scores: Dict[str, Dict[str, Any]]  # by metric: "score" and "signature"
    statistics: Dict[str, List[int]] = {}
    chance: Dict[str, float] = {}  # of a classification: the scores of the most frequent label


class Result(Struct):
    """The entries of a result file that are read."""

    format: str
    recipe: str
    variant: str
    arch: str
    seed: int
    run: Run
    training: Training
    data: Dict[str, Any]
    curve: Dict[str, Dict[str, List[Any]]]  # "train" and "valid": "updates", "seconds", "nll" in bits
    tests: Dict[str, Test]
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


def checked(path: Path, content: Any, kind: Type[Content], remedy: str = REMEDY) -> Content:
    """The content of a JSON file as an object of a class; raises Failure if an entry is missing or of another type."""
    try:
        return msgspec.convert(content, kind)
    except msgspec.ValidationError as error:
        raise Failure(f"{path}: {error}: {remedy}") from None


def read_result(path: Path) -> Result:
    """The content of a result file; raises Failure if it is damaged, inconsistent, or no result."""
    return _result(path, read_json(path, REMEDY))


def _result(path: Path, content: Any) -> Result:
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise Failure(f"{path} is no result file of version '{FORMAT}': {REMEDY}")
    result = checked(path, content, Result)
    for name, test in result.tests.items():
        if reason := inconsistency(test):
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


def inconsistency(test: Test) -> str:
    """A contradiction between BLEU of a test set and the statistics of its sentences; empty if there is none."""
    if BLEU not in test.scores:
        return ""
    if set(test.statistics) != set(COLUMNS) or {len(column) for column in test.statistics.values()} != {test.sentences}:
        return f"does not hold the statistics of {test.sentences} sentences"
    stated, computed = test.scores[BLEU]["score"], bleu(rows(test.statistics))
    return f"says {stated} BLEU, its statistics have {computed:.2f}" if abs(stated - computed) > ROUNDED else ""


def write_result(result: Dict[str, Any], path: Path) -> None:
    """Writes a result file; raises Failure if the result has no scores and the existing file has."""
    if result.get("unfinished") and path.is_file():
        try:
            scored = bool(read_json(path)["tests"])
        except (Failure, KeyError, TypeError):  # damaged
            scored = False
        if scored:
            raise Failure(f"{path} has the scores of a finished run: name another file, or remove it")
    write_json(path, result)


def set_aside(path: Path) -> None:
    """Renames a result file of a finished run, whose place one with other settings takes."""
    old = f"{path}.old-{time.strftime('%Y%m%d-%H%M%S')}"
    say(f"{path} is of a run with other settings: it moves to {old}")
    path.rename(old)


def without_folders(command: str, places: Mapping[str, str]) -> str:
    """A command without the folders of this machine: ``places`` has for each option what stands for each of its values,
    where ``{name}`` is their last part."""
    words, option = [], ""
    for word in shlex.split(command):
        name, equals, value = word.partition("=")
        if word.startswith("--"):
            option = "" if equals else name
        if option in places and word != option:
            word = places[option].format(name=Path(word).name)
        elif equals and name in places:
            word = f"{name}={places[name].format(name=Path(value).name)}"
        words.append(word)
    return shlex.join(words)
