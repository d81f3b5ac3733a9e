"""Markdown: text, names and tables, the table of a recipe, and how its runs were made."""

import re
from pathlib import Path
from statistics import fmean as mean
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from ..results import Result
from ..scoring.metrics import METRICS, Metric
from .benchmarks import File
from .comparison import Difference
from .recipe import RecipeResults
from .systems import SystemResults, metric_of

MARKS = re.compile(r"([\\`*_\[\]|~#])")
COMMIT = re.compile(r"([0-9a-f]{9})[0-9a-f]+")
"""The long name of a commit; "-dirty" behind it says that files had changed."""

PLACES = re.compile(r"--(arch|seed) \S+")
DATA = {"documents": "documents", "tokens": "tokens", "pairs": "pairs", "kept": "after cleaning", "merges": "merges"}
"""Entries about the training data in a result file, and what they are called."""
ON_CARDS = ("data", "begins with", "training", "machine", "commit", "trained")
"""The facts of :func:`conditions` that a card has."""


def text(value: str) -> str:
    """Any text as Markdown that is not markup, behind other text on its line."""
    return MARKS.sub(r"\\\1", " ".join(value.split()).replace("&", "&amp;").replace("<", "&lt;"))


def code(value: str) -> str:
    """Text in a fixed font."""
    return f"`{' '.join(value.split())}`"


def table(columns: Sequence[Tuple[str, Sequence[str]]], left: int = 1) -> str:
    """A Markdown table from its columns, heads and cells, without empty ones; the first are aligned to the left."""
    shown = [column for place, column in enumerate(columns) if place < left or any(column[1])]
    rules = ["---" if place < left else "---:" for place in range(len(shown))]
    lines = [[head for head, _ in shown], rules, *zip(*(cells for _, cells in shown))]
    return "\n".join("| " + " | ".join(re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in line) + " |" for line in lines)


def change(found: Optional[Difference]) -> str:
    """A difference, with its 95% interval if it was tested; empty without one."""
    if not found:
        return ""
    value, *ends = (f"{number:+.2f}".replace("-", "\u2212") for number in (found.value, *(found.interval or ())))
    return f"{value} ({ends[0]} to {ends[1]})" if ends else value


def p_value(found: Optional[Difference]) -> str:
    """The p value of a difference, and whether it knows nothing of how trainings differ; empty without a test."""
    if not found or found.p is None:
        return ""
    p = "<0.001" if found.p < 0.001 else f"{found.p:.3f}"
    return p if found.over_trainings else f"{p} (text alone)"


def figure(values: Sequence[float], metric: Metric) -> str:
    """A mean, and its deviation if there is one."""
    return "±".join(f"{number:.{metric.digits}f}" for number in values)


def scores(recipe: RecipeResults, systems: Sequence[SystemResults], test: str, key: str = "") -> Tuple[str, List[str]]:
    """The head and the cells of a column: scores on a test set by a metric, by default the first one that it has.

    Behind a score of fewer seeds than the system has stands how many.
    """
    first, key = recipe.tests[0], key or metric_of(recipe.systems, test)
    metric, found = METRICS[key], [system.spread(test, key) for system in systems]
    best = max((metric.worth(score[0]) for score in found if score), default=None)
    cells = [figure(score, metric) for score in found]
    for place, score in enumerate(found if len(found) > 1 else ()):
        cells[place] = f"**{cells[place]}**" if score and metric.worth(score[0]) == best else cells[place]
    for place, system in enumerate(systems):
        seeds = len(system.scores(test, key))
        cells[place] += f" ({seeds})" if 0 < seeds < len(system.runs) else ""
    told = f"{metric.name} " if recipe.is_tuned or test == first or key != recipe.metric else ""
    name = f"…{test[len(first) :]}" if test.startswith(first) and test != first else test  # _x2, _long
    return f"{told}{metric.arrow} {code(name)}", cells


def _difference(recipe: RecipeResults, system: SystemResults) -> str:
    is_baseline = recipe.differences and system is recipe.baseline
    return "baseline" if is_baseline else change(recipe.differences.get(system))


def _to_best(recipe: RecipeResults, system: SystemResults) -> Optional[Difference]:
    best = recipe.scored[0] if recipe.scored else None
    return recipe.difference(system, best) if best and system is not best else None


COLUMNS: Dict[str, Tuple[str, Callable[[RecipeResults, SystemResults], str]]] = {
    "seeds": ("seeds", lambda recipe, system: str(len(system.runs))),
    "updates": ("updates", lambda recipe, system: ", ".join(f"{n:,}" for n in system.updates)),
    "average": ("average ↑", lambda recipe, s: f"{mean(k.values()):.2f}" if (k := recipe.scores(s)) else ""),
    "difference": ("difference (95% interval)", _difference),
    "p": ("p", lambda recipe, system: p_value(recipe.differences.get(system))),
    "to best": ("to the best", lambda recipe, system: change(_to_best(recipe, system))),
    "p to best": ("p", lambda recipe, system: p_value(_to_best(recipe, system))),
    "commit": ("commit", lambda recipe, system: ", ".join(dict(_facts(system.results, "")).get("commit", []))),
    "parameters": ("parameters ↓", lambda recipe, system: f"{system.parameters:,}"),
}
"""Head and cell of the columns that are not scores."""


def system_table(recipe: RecipeResults, names: Sequence[str] = (), plain: bool = False) -> str:
    """The table of systems, or of ``plain`` ones without variants.

    Args:
        names: of columns: those of :data:`COLUMNS`, test sets, a test set and a metric, or ``step`` and a benchmark; by
            default the usual ones.
    """
    (first, *others), sets = recipe.tests, [*recipe.tests, *recipe.validation]
    beside = [f"{first} {key}" for key, metric in METRICS.items() if metric.in_report and key != recipe.metric]
    usual = [first, "difference", "p", *beside, *recipe.validation, *others]
    usual = [*recipe.tests, "average", "difference"] if recipe.is_tuned else usual
    size = f" {code('…' + recipe.size)}" if recipe.size else ""
    systems = [system for system in recipe.systems if not (plain and system.variant)]
    columns = [(f"system{size}", [code(recipe.short(system)) for system in systems])]
    differ = len({system.updates for system in recipe.systems}) > 1 and not recipe.is_tuned
    updates = ["updates"] if differ else []  # some had more training
    for name in names or ["seeds", *updates, *usual, "parameters"]:
        if name in COLUMNS:
            head, cell = COLUMNS[name]
            columns.append((head, [cell(recipe, system) for system in systems]))
        elif name.startswith("step "):
            steps = recipe.steps(name.removeprefix("step "))
            columns.append(("step ↓", [f"{steps[system]:.2f}" if system in steps else "" for system in systems]))
        else:
            test, _, key = (name, "", "") if name in sets else name.rpartition(" ")
            columns.append(scores(recipe, systems, test, key))
    return table(columns)


def speed_table(files: Sequence[File], pattern: str = "") -> str:
    """The table of benchmarks, with a row for each candidate that matches; several cases stand in one cell."""
    rows = []
    for file in files:
        several = len({row.case for row in file.rows}) > 1
        for name in dict.fromkeys(row.candidate for row in file.rows if re.search(pattern, row.candidate)):
            own = [row for row in file.rows if row.candidate == name]
            ends = [re.sub(r"[\d.]+", lambda end: f"{float(end[0]):.2f}", row.quartiles) for row in own]
            fast = (f"{row.case + ': ' if several else ''}{row.ratio:.2f} ({end})" for row, end in zip(own, ends))
            share = (row.share for row in own if "%" in row.share)
            memory = (f"{row.memory:,.0f}" for row in own if row.memory)
            rows.append([code(file.name), code(name), "; ".join(fast), ", ".join(share), ", ".join(memory)])
    heads = ["benchmark", "candidate", "times as fast ↑ (quartiles)", "share of peak ↑", "peak MiB ↓"]
    return table(list(zip(heads, zip(*rows))), left=2)


def lengths_table(files: Sequence[File], pattern: str = "") -> str:
    """The times of each candidate that matches by the length of sentences, relative to the baseline's at this length,
    and their memory."""
    names = [row.candidate for row in files[0].rows if re.search(pattern, row.candidate)]
    columns = [("candidate", [code(name) for name in names])]
    for file in files:
        rows = {row.candidate: row for row in file.rows}
        cells = [f"{1 / rows[name].ratio:.2f} ({rows[name].memory:,.0f})" for name in names]
        columns.append((f"{file.length:,} tokens", cells))
    return table(columns)


def conditions(recipe: RecipeResults) -> List[Tuple[str, List[str]]]:
    """How the runs were made: what each fact is, and its values, each once."""
    finished = [result for system in recipe.systems for result in system.results]
    facts = _facts([*finished, *recipe.unfinished], recipe.metric)
    signatures = dict.fromkeys(code(found.signature) for found in recipe.differences.values() if found.signature)
    return [*facts, *([("p", list(signatures))] if signatures else [])]


def cards(recipe: RecipeResults) -> str:
    """A card for each system: data, training, tests, limits, as its result files tell."""
    return "\n\n".join(_card(recipe, system) for system in recipe.systems)


def _card(recipe: RecipeResults, system: SystemResults) -> str:
    seeds, tests, lengths = sorted(system.runs), [], ""
    for test in [*recipe.tests, *recipe.validation]:
        metric = METRICS[key := metric_of(recipe.systems, test)]
        if score := system.spread(test, key):
            count = len(system.scores(test, key))
            fewer = f" ({count})" if count < len(seeds) else ""
            tests.append(f"{metric.name} {figure(score, metric)}{fewer} on {code(test)}")
    words = [n for test in system.tests(recipe.tests[0]).values() for n in test.statistics.get("source_words", [])]
    if words:
        low, high = (sorted(words)[round(share * (len(words) - 1))] for share in (0.05, 0.95))
        lengths = f"; tested on lines of {low} to {high} words (nine in ten)"
    several = f"seeds {', '.join(map(str, seeds))}"
    told = several if len(seeds) > 1 else "one seed, which cannot tell how trainings differ"
    facts = [(n, ", ".join(values)) for n, values in _facts(system.results, recipe.metric) if n in ON_CARDS]
    files = ", ".join(f"[{Path(result.file).name}]({Path(result.file).name})" for result in system.results)
    rows = [("tests", "; ".join(tests)), ("limits", told + lengths), *facts, ("files", files)]
    return f"**{code(system.name)}**\n\n" + "\n".join(f"- {name}: {value}" for name, value in rows)


def _facts(results: Sequence[Result], metric: str) -> List[Tuple[str, List[str]]]:
    facts: Dict[str, Dict[str, None]] = {}

    def add(**values: str) -> None:
        for name, value in values.items():
            facts.setdefault(name, {}).update({code(value): None} if value else {})

    for result in results:
        made, run = result.training, result.run
        train = {key: value.get("train") if isinstance(value, dict) else value for key, value in result.data.items()}
        tokens = f" of {made.target_tokens_per_update:,.0f} tokens" if made.target_tokens_per_update else ""
        add(data=", ".join(f"{train[key]:,} {told}" for key, told in DATA.items() if train.get(key)))
        add(**{"begins with": result.starts_with})
        add(training=f"{made.updates:,} updates{tokens}, {made.averaged} averaged")
        for test in result.tests.values():
            add(search=test.settings, scores=test.scores.get(metric, {}).get("signature", ""))
        add(machine=", ".join([*made.devices, run.machine]), commit=COMMIT.sub(r"\1", run.commit or ""))
        add(versions=", ".join(f"{name} {version}" for name, version in run.versions.items()))
        add(prepared=result.data.get("command", ""))
        add(trained=PLACES.sub(lambda option: f"--{option[1]} {option[1].upper()}", run.command))
    return [(name, list(values)) for name, values in facts.items() if values]
