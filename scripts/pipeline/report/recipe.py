"""The content of the report as plain data, from result files and benchmark files."""

from functools import cached_property
from pathlib import Path
from statistics import fmean as mean
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..command import Failure, say
from ..files import read_lines
from ..results import Result, read_results
from ..scoring.metrics import METRICS
from ..scoring.scored import BLEU
from .benchmarks import File, read_benchmarks
from .comparison import Difference, choose_baseline, compare
from .systems import SystemResults, evaluation_sets, group, metric_of, usable


class RecipeResults:
    """The results of one recipe, or of all tasks of one recipe of fine-tuning.

    Args:
        files: benchmarks.
        baseline: an architecture.
    """

    def __init__(self, name: str, results: Sequence[Result], files: Sequence[File] = (), baseline: str = "") -> None:
        self.name = name
        self.systems = group(results)
        """The best first."""
        done = {_run(result) for result in results if not result.unfinished}
        self.unfinished = [result for result in results if result.unfinished and _run(result) not in done]
        """Those that finished on no machine."""
        tests, self.validation = evaluation_sets(self.systems)
        self.tests = tests or ["test"]
        """The first one ranks."""
        self.metric = metric_of(self.systems, self.tests[0])
        self.is_tuned = any(result.grid for result in results)
        known = {system: self.scores(system).values() for system in self.systems}
        worth = {system: METRICS[self.metric].worth(mean(scores)) for system, scores in known.items() if scores}
        self.systems.sort(key=lambda system: (-worth.get(system, float("-inf")), system.name))
        self.scored = [system for system in self.systems if system in worth]
        self.baseline = choose_baseline(self.systems, baseline)
        self.benchmarks = {file.name: file for file in files}
        files_of = {result.name: Path(result.file) for result in reversed(results)}
        texts = {name: path for name, file in files_of.items() if (path := file.with_suffix(".tsv")).is_file()}
        self.translations = {name: [row.split("\t") for row in read_lines(path)[1:]] for name, path in texts.items()}
        """By system: rows of source, translation and reference."""
        self.maps = {name: path for name, file in files_of.items() if (path := file.with_suffix(".png")).is_file()}
        """By system: a picture of what its positions add to the logits."""
        self.pictures: Dict[str, Tuple[str, str]] = {}
        """By file: caption and SVG."""

    def scores(self, system: SystemResults) -> Dict[int, float]:
        """What ranks, by seed: the score on the first test set, or the average over the tasks of a fine-tuning."""
        if not self.is_tuned:
            return system.scores(self.tests[0], self.metric)
        tasks = [system.scores(task, metric_of(self.systems, task)) for task in self.tests]
        return {seed: mean(task[seed] for task in tasks) for seed in tasks[0] if all(seed in task for task in tasks)}

    def difference(self, system: SystemResults, other: SystemResults, test: str = "") -> Optional[Difference]:
        """On a test set, by default by what ranks; None without a common seed."""
        if test or not self.is_tuned:
            test = test or self.tests[0]
            return compare(system, other, test, metric_of(self.systems, test), self.systems)
        own, others = self.scores(system), self.scores(other)
        common = [seed for seed in own if seed in others]
        first, second = (tuple(known[seed] for seed in common) for known in (own, others))
        return Difference(first, second) if common else None

    @cached_property
    def differences(self) -> Dict[SystemResults, Difference]:
        """To the baseline."""
        found = {s: self.difference(s, self.baseline) for s in self.systems if self.baseline not in (None, s)}
        return {system: difference for system, difference in found.items() if difference}

    @property
    def chance(self) -> Dict[str, float]:
        """What the most frequent label alone would score in each task of a fine-tuning, as far as recorded."""
        tests = [(task, test) for system in self.systems for task in self.tests for test in system.tests(task).values()]
        keys = {task: metric_of(self.systems, task) for task in self.tests}
        return {task: test.chance[keys[task]] for task, test in tests if keys[task] in test.chance}

    @property
    def close(self) -> List[SystemResults]:
        """The systems that cannot be told from the best, the smallest first."""
        found = {system: self.difference(system, self.scored[0]) for system in self.scored[1:]}
        alike = [system for system, one in found.items() if one and one.p is not None and one.relation == "≈"]
        return sorted(alike, key=lambda system: (system.parameters, -len(system.runs)))

    def steps(self, benchmark: str) -> Dict[SystemResults, float]:
        """The time of a training step in fp32 in a benchmark, the baseline being 1; of no variants, which have none."""
        ratios = {row.candidate: row.ratio for row in self.benchmarks[benchmark].rows if row.case == "fp32"}
        plain = [system for system in self.systems if system.is_plain and system.arch in ratios]
        return {system: ratios[self.baseline.arch] / ratios[system.arch] for system in plain} if self.baseline else {}

    @property
    def size(self) -> str:
        """The end of the architectures' names, if all have the same one: ``_base``."""
        ends = {system.arch.rpartition("_")[2] for system in self.systems}
        return f"_{ends.pop()}" if len(ends) == 1 else ""

    def short(self, system: SystemResults) -> str:
        """The name of a system without :attr:`size`."""
        return system.name.replace(self.size, "", 1)


def _run(result: Result) -> Tuple[str, int, str]:
    """What tells a run of a recipe from others, on any machine."""
    return result.name, result.seed, result.settings


class Report(NamedTuple):
    """The whole report."""

    recipes: List[RecipeResults]
    benchmarks: List[File]
    broken: List[str]  # why files are left out


def read_report(paths: Sequence[Path], baseline: str = "") -> Report:
    """Reads the report, without its pictures: recipes of translation first, of these the ones with the most text and
    runs. Also names files that it cannot use on stderr."""
    found, broken, others = read_results(paths)
    results, clashing = usable(found)
    for reason in (broken := [*broken, *clashing]):
        say(f"left out: {reason}")
    named: Dict[str, List[Result]] = {}
    for result in results:
        name = result.recipe.removesuffix(f"_{next(iter(result.tests), '')}") if result.grid else result.recipe
        named.setdefault(name, []).append(result)
    place, files = ", ".join(map(str, paths)), read_benchmarks(others)
    if not named:
        raise Failure(f"{place} has no result of a recipe: run scripts/reproduce.sh first")
    recipes = [RecipeResults(name, own, files, baseline) for name, own in named.items()]
    if not any(recipe.baseline or not recipe.systems for recipe in recipes):
        raise Failure(f"{place} has no result of the baseline '{baseline}': run it, or name another")

    def order(recipe: RecipeResults) -> Tuple[bool, bool, int, int]:
        pairs = max((result.data.get("pairs") or {}).get("train") or 0 for result in named[recipe.name])
        return recipe.is_tuned, recipe.metric != BLEU, -pairs, -len(named[recipe.name])

    return Report(sorted(recipes, key=order), files, broken)
