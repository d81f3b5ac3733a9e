"""Results, grouped: the runs of one recipe, variant and architecture are one system. Needs no fairseq."""

import re
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

if __package__:
    from .result_file import Result, ResultError
else:  # run by path
    from result_file import Result, ResultError  # type: ignore[no-redef, import-not-found]

SEED = re.compile(r"--seed \S+")


@dataclass
class System:
    """One architecture, trained in one way, with any number of seeds; none is a system that was not run."""

    arch: str
    variant: str = ""
    runs: Dict[int, Result] = field(default_factory=dict)  # by seed

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
        found = {seed: entry["scores"].get(key) for seed, entry in self.tests(test).items()}
        return {seed: float(score["score"]) for seed, score in found.items() if score}


def mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def mean_and_deviation(values: Sequence[float]) -> Tuple[float, Optional[float]]:
    """The mean, and the deviation of a sample (n - 1); None for the deviation of one value."""
    return mean(values), statistics.stdev(values) if len(values) > 1 else None


def group(results: Sequence[Tuple[Path, Result]]) -> Dict[str, List[System]]:
    """The systems of each recipe, in the order of their names.

    Raises:
        ResultError: runs that cannot be compared: the same one twice, seeds of one system trained with other flags,
            test sets of one name with other sentences.
    """
    systems: Dict[Tuple[str, str, str], System] = {}
    origin: Dict[Tuple[str, str, str, int], Path] = {}
    texts: Dict[Tuple[str, str], Tuple[Path, Any]] = {}
    for path, result in results:
        key = (result["recipe"], result["arch"], result["variant"])
        system = systems.setdefault(key, System(result["arch"], result["variant"]))
        seed = int(result["seed"])
        if seed in system.runs:
            raise ResultError(f"{origin[(*key, seed)]} and {path} are the same run: remove one, or name a variant=")
        for other in system.seeds:
            if _settings(system.runs[other]) != _settings(result):
                first = origin[(*key, other)]
                raise ResultError(
                    f"{first} and {path} were trained with other settings: remove one, or name a variant="
                )
        for name, test in result["tests"].items():
            text = [test["statistics"][column] for column in ("source_words", "ref_len")]
            first, known = texts.setdefault((result["recipe"], name), (path, text))
            if known != text:
                raise ResultError(f"{first} and {path} have other sentences in {name}: score one of them again")
        system.runs[seed], origin[(*key, seed)] = result, path
    recipes: Dict[str, List[System]] = {}
    for recipe, arch, variant in sorted(systems):
        recipes.setdefault(recipe, []).append(systems[recipe, arch, variant])
    return recipes


def _settings(result: Result) -> Tuple[str, int]:
    return SEED.sub("", result["run"]["flags"]), result["training"]["updates"]
