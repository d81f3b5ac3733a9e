"""The content of the report as one plain structure, from result files and benchmark files."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..command import Failure, say
from ..results.file import Broken, Result, read_results
from ..scoring.kinds import METRICS, Metric
from .benchmarks import Speed, read_speed
from .claims import Claim, papers
from .kinds import is_tuned
from .recipe import Recipe, make_recipe
from .systems import usable
from .tuned import Tuned, make_tuned

UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufdd0-\ufdef\ufffe\uffff]+")


def printable(value: Any) -> str:
    """Any value as text on one line, with only characters that UTF-8 and XML can hold."""
    return UNPRINTABLE.sub(" ", str(value)).encode("utf-8", "replace").decode("utf-8")


class Wanted(NamedTuple):
    """The user's wishes."""

    recipe: Optional[str] = None  # report only this one
    archs: Sequence[str] = ()  # have a row even if not run
    seeds: Sequence[int] = ()  # expected of each system
    about: Optional[str] = None  # the recipe of ``archs`` and ``seeds``; None: all
    baseline: Optional[str] = None


@dataclass
class Report:
    """The whole report."""

    recipes: List[Recipe]
    speed: Speed
    broken: List[Broken]
    tuned: List[Tuned] = field(default_factory=list)
    pictures: Dict[str, str] = field(default_factory=dict)  # file to SVG
    has_pictures: bool = False

    @property
    def metrics(self) -> List[Metric]:
        """The metrics that some test set has."""
        sets = [test["scores"] for recipe in self.recipes for test in recipe["sets"]]
        used = {key for scores in sets for key, column in scores.items() if any(column)}
        used |= {column.key for tuned in self.tuned for column in tuned["columns"]}
        return [metric for key, metric in METRICS.items() if key in used]

    @property
    def claims(self) -> List[Claim]:
        """The claims that some recipe tests."""
        tested = [checked.claim for recipe in self.recipes for checked in recipe["claims"]]
        return [claim for claim in papers()["claim"] if claim in tested]

    @property
    def elsewhere(self) -> List[Dict[str, Any]]:
        """The papers' tables about other sizes and data that stand beside something in the report."""
        trained = {recipe["kind"].task.name for recipe in self.recipes}
        tuned = {task for table in self.tuned for task in table["tasks"]}
        tables = papers()["elsewhere"]
        return [table for table in tables if table["task"] in trained or tuned & set(table["columns"])]

    @property
    def translates(self) -> bool:
        """Whether there is a recipe of translation."""
        return any(recipe["kind"].tested for recipe in self.recipes)

    @property
    def models_text(self) -> bool:
        """Whether there is a recipe of a language model."""
        return not all(recipe["kind"].tested for recipe in self.recipes)


def read_report(paths: Sequence[Path], wanted: Wanted) -> Report:
    """Reads the report, without its pictures. Also names files that it cannot use on stderr.

    Raises:
        Failure: there is nothing to report, or the baseline was not run.
    """
    found, broken, others = read_results(paths)
    results, clashing = usable(found)
    speed = read_speed(others)
    broken = sorted([*broken, *clashing])
    for path, reason in broken:
        say(f"{path} is left out: it {reason}")
    recipes = []
    tuned = [
        table
        for table in make_tuned([result for result in results if is_tuned(result)], wanted.baseline)
        if wanted.recipe in (None, table["name"])
    ]
    trained = [result for result in results if not is_tuned(result)]
    for name, own in _chosen(trained, wanted, ", ".join(map(str, paths)), bool(tuned)).items():
        expected = (wanted.archs, wanted.seeds) if wanted.about in (None, name) else ((), ())
        recipes.append(make_recipe(name, own, *expected, wanted.baseline, speed.steps))
    if wanted.baseline and not any(part["baseline"] for part in [*recipes, *tuned]):
        raise Failure(f"the baseline '{wanted.baseline}' has no result in {paths[0]}: run it, or name another")
    recipes.sort(key=lambda recipe: (not recipe["kind"].tested, -_size(recipe)))
    return Report(recipes, speed, broken, tuned)


def _chosen(results: Sequence[Result], wanted: Wanted, place: str, tuned: bool) -> Dict[str, List[Result]]:
    """The results of each recipe to report: all recipes, or the named one; may be empty if there is a fine-tuning."""
    there: Dict[str, List[Result]] = {name: [] for name in sorted({result["recipe"] for result in results})}
    for result in results:
        there[result["recipe"]].append(result)
    if wanted.recipe is not None:
        if wanted.recipe not in there and tuned:
            return {}
        if wanted.recipe not in there and not wanted.archs:
            names = ", ".join(there) or "none"
            raise Failure(f"no result of recipe '{wanted.recipe}' in {place}; recipes there: {names}")
        return {wanted.recipe: there.get(wanted.recipe, [])}
    if not there and not tuned:
        raise Failure(f"no result file that can be used in {place}: run scripts/reproduce.sh first")
    figures = papers()["published"]  # one table of a paper: what was not run is named too
    return {**there, **{name: there.get(name, []) for name in figures if set(figures) & set(there)}}


def _size(recipe: Recipe) -> int:
    """Training pairs or tokens, which put the demo behind real data; 0 if they are not recorded."""
    return max((int(data.get("train", data.get("tokens", 0))) for data, _ in recipe["made"]["data"]), default=0)
