"""Results, grouped: the runs of one recipe, variant and architecture are one system. Needs no fairseq."""

import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from ..results.file import Result, ResultError

SEED = re.compile(r"--seed \S+")
VALIDATION = "valid"
"""fairseq's name of the validation set."""


@dataclass
class System:
    """One architecture, trained in one way, with any number of seeds; none is a system that was not run.

    Runs that did not finish are no part of what is said about it.
    """

    arch: str
    variant: str = ""
    runs: Dict[int, Result] = field(default_factory=dict)  # by seed
    unfinished: List[int] = field(default_factory=list)  # seeds of runs that did not finish

    @property
    def name(self) -> str:
        return f"{self.arch} ({self.variant})" if self.variant else self.arch

    @property
    def seeds(self) -> List[int]:
        return sorted(self.runs)

    @property
    def results(self) -> List[Result]:
        return [self.runs[seed] for seed in self.seeds]

    @property
    def flags(self) -> Dict[str, str]:
        """fairseq-train's flags but seed and architecture; of several, the last one wins, as on the command line."""
        words = re.split(r" (?=--)", self.results[0]["run"]["flags"]) if self.runs else []
        flags = dict((f"{word} ".split(" ", 1)) for word in words)
        return {flag: value.strip() for flag, value in flags.items() if flag not in ("--arch", "--seed")}

    def tests(self, name: str) -> Dict[int, Dict[str, Any]]:
        """What is known of one test set, by seed."""
        return {seed: self.runs[seed]["tests"][name] for seed in self.seeds if name in self.runs[seed]["tests"]}

    def scores(self, test: str, key: str) -> Dict[int, float]:
        """One score of one test set, by seed."""
        entries = {seed: entry["scores"].get(key) for seed, entry in self.tests(test).items()}
        return {seed: float(score["score"]) for seed, score in entries.items() if score}


def mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def mean_and_deviation(values: Sequence[float]) -> Tuple[float, Optional[float]]:
    """The mean, and the deviation of a sample (n - 1); None for the deviation of one value."""
    return mean(values), statistics.stdev(values) if len(values) > 1 else None


def evaluation_sets(systems: Sequence[System]) -> Tuple[List[str], List[str]]:
    """The names of the test sets and those of the validation sets, each in the order of the results."""
    valid: Dict[str, bool] = {}
    for system in systems:
        for result in system.results:
            for name, test in result["tests"].items():
                valid[name] = valid.get(name, False) or test["subset"] == VALIDATION
    return [name for name in valid if not valid[name]], [name for name in valid if valid[name]]


def group(results: Sequence[Tuple[Path, Result]]) -> Dict[str, List[System]]:
    """The systems of each recipe, in the order of their names.

    Raises:
        ResultError: runs that cannot be compared: the same one twice, test sets of one name with other sentences.

    Seeds that were trained on other data, with other flags or updates are not averaged: each such setting is a variant.
    Runs that did not finish are no part of a system; a recipe of which there are no others has an empty list.
    """
    trained: Dict[Tuple[str, str, str], Dict[Tuple[str, int], System]] = {}  # by settings
    origin: Dict[Tuple[Any, ...], Path] = {}
    texts: Dict[Tuple[str, str], Tuple[Path, Any]] = {}
    for path, result in results:
        key, seed = (result["recipe"], result["arch"], result["variant"]), int(result["seed"])
        run = (*key, *_settings(result), seed)
        if run in origin:
            raise ResultError(f"{origin[run]} and {path} are the same run: remove one, or name a variant=")
        origin[run] = path
        if result.get("unfinished"):
            continue
        settings = trained.setdefault(key, {})
        system = settings.setdefault(_settings(result), System(result["arch"], result["variant"]))
        for name, test in result["tests"].items():
            text = [test["statistics"][column] for column in ("source_words", "ref_len")]
            first, known = texts.setdefault((result["recipe"], name), (path, text))
            if known != text:
                raise ResultError(f"{first} and {path} have other sentences in {name}: score one of them again")
        system.runs[seed] = result
    systems: Dict[Tuple[str, str, str], System] = {}
    for (recipe, arch, variant), by_settings in trained.items():
        updates = [count for _, count in by_settings]
        for number, ((_, count), system) in enumerate(sorted(by_settings.items()), 1):
            if len(by_settings) > 1:
                what = f"{count:,} updates" if len(set(updates)) == len(updates) else f"settings {number}"
                system.variant = f"{variant}, {what}" if variant else what
            systems[recipe, arch, system.variant] = system
    recipes: Dict[str, List[System]] = {result["recipe"]: [] for _, result in results}
    for recipe, arch, variant in sorted(systems):
        recipes[recipe].append(systems[recipe, arch, variant])
    return dict(sorted(recipes.items()))


def unfinished(results: Sequence[Tuple[Path, Result]], recipe: str) -> List[Result]:
    """The runs of a recipe that did not finish, in the order of architecture, variant and seed."""
    cut = [result for _, result in results if result["recipe"] == recipe and result.get("unfinished")]
    return sorted(cut, key=lambda result: (result["arch"], result["variant"], int(result["seed"])))


def _settings(result: Result) -> Tuple[str, int]:
    """Data, flags and updates, as far as they are recorded; those that were wanted of a run that did not finish."""
    updates = result["training"]["updates"]
    if result.get("unfinished"):
        updates = int(result["run"].get("max_update") or updates)
    return SEED.sub("", result.get("settings") or result["run"]["flags"]), updates
