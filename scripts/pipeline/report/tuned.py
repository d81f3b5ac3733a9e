"""Fine-tuning as plain data: one table for each recipe of ``scripts/finetune.sh``, of systems and tasks."""

import re
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..results.file import Result
from ..scoring.kinds import METRICS
from . import runs
from .comparison import choose_baseline, ranking_metric
from .kinds import KINDS
from .systems import SEED, Label, Spread, System, group, mean, pretraining, spread

CHOSEN = re.compile(r"median of (\d{1,6}) seeds?, learning rate (\S+)")
"""The settings of a task, as ``finetuning/result.py`` writes them."""

TUNING = re.compile(r"^finetune .*?(\bepochs .*|$)", re.MULTILINE)
"""The line of a fine-tuning among the settings: what it is, and epochs, batch and flags."""

Tuned = Dict[str, Any]
Way = Tuple[str, str]
"""The settings of a pretraining, and what is known of its end."""


class Column(NamedTuple):
    """One metric of one task, with an entry for each system: the spread over pretraining seeds, and the rates."""

    task: str
    key: str
    scores: List[Optional[Spread]]
    rates: List[str]
    """The chosen learning rates; only the first metric of a task has them."""

    @property
    def best(self) -> Optional[float]:
        return max((score.mean for score in self.scores if score), default=None)


def make_tuned(results: Sequence[Result], arch: Optional[str] = None) -> List[Tuned]:
    """The tables, in the order of their names.

    Args:
        arch: the baseline.

    Returns:
        Of each table: ``name``, ``labels`` (the systems, best first), ``columns``, ``average`` (of the first metrics,
        for systems that have all tasks), ``differences`` of it to the ``baseline``, ``counts`` (trainings behind a
        median), ``grids`` (learning rates and seeds that were tried), ``tasks`` with the sizes of their sets, those
        with ``shortened`` examples, ``chance`` (of each task, the scores of its most frequent label), and how the runs
        were made.
    """
    named: Dict[str, List[Result]] = {}
    for result in sorted(results, key=lambda result: result["recipe"]):
        if result["tests"] and not result.get("unfinished"):
            named.setdefault(result["recipe"].removesuffix(f"_{_task(result)}"), []).append(result)
    return [_table(name, _grouped(own), arch) for name, own in named.items()]


def _task(result: Result) -> str:
    return next(iter(result["tests"]))


def _grouped(results: Sequence[Result]) -> Dict[str, List[System]]:
    """The systems of one table by task. A system has the same name in each task: where models of one architecture were
    pretrained in several ways it says which, and where systems were fine-tuned in several ways it says how."""
    tunings = {_tuning(result) for result in results}
    ways: Dict[Tuple[str, str], Set[Way]] = {}
    for result in results:
        ways.setdefault((result["arch"], result["variant"]), set()).add(_pretraining(result))
    told: Dict[str, Dict[Tuple[str, str, str], List[Result]]] = {}
    for result in results:
        name = _named(_pretraining(result), ways[result["arch"], result["variant"]])
        way = ", ".join(filter(None, (name, _tuning(result) if len(tunings) > 1 else "")))
        told.setdefault(_task(result), {}).setdefault((result["arch"], result["variant"], way), []).append(result)
    tasks: Dict[str, List[System]] = {task: [] for task in told}
    for task, systems in told.items():
        for (_, _, way), own in systems.items():
            for system in group(own):
                system.settings = ", ".join(filter(None, (way, system.settings)))
                tasks[task].append(system)
    return tasks


def _pretraining(result: Result) -> Way:
    """How a model was pretrained, for every seed."""
    settings = re.split("^finetune ", result.get("settings", ""), flags=re.MULTILINE)[0]
    return SEED.sub("", settings), pretraining(result)


def _named(way: Way, ways: Set[Way]) -> str:
    """The name of a pretraining among others of its architecture; empty if there are no others."""
    if len(ways) == 1:
        return ""
    return ", ".join(filter(None, (f"pretraining {sorted(ways).index(way) + 1}", way[1])))


def _tuning(result: Result) -> str:
    """Epochs, batch and flags of the fine-tuning; empty if they are not recorded."""
    found = TUNING.search(result.get("settings", ""))
    return found[1].strip() if found else ""


def _table(name: str, tasks: Dict[str, List[System]], arch: Optional[str]) -> Tuned:
    systems = [system for own in tasks.values() for system in own]
    seeds: Dict[Label, Set[int]] = {}  # of the pretraining
    for system in systems:
        seeds.setdefault(system.label, set()).update(system.seeds)
    averages = {label: _average(label, tasks) for label in seeds}
    labels = sorted(seeds, key=lambda label: (averages[label] is None, -(averages[label] or 0.0), label))
    baseline = choose_baseline(systems, arch, KINDS["masked_lm"].baselines)
    tests = [(task, test) for task, own in tasks.items() for system in own for test in system.tests(task).values()]
    chosen = [found for _, test in tests if (found := CHOSEN.search(test["settings"]))]
    scores = [score for _, test in tests for score in test["scores"].values()]
    return {
        "name": name,
        "tasks": {task: test["sentences"] for task, test in tests},
        "shortened": {task: most for task, own in tasks.items() if any(most := _shortened(own))},
        "chance": {task: known for task, test in tests if (known := _known(test.get("chance", {})))},
        "labels": labels,
        "seeds": [sorted(seeds[label]) for label in labels],
        "columns": [column for task, own in tasks.items() for column in _columns(task, own, labels)],
        "average": [averages[label] for label in labels],
        "baseline": baseline.label if baseline else None,
        "differences": [_difference(label, baseline.label if baseline else None, tasks) for label in labels],
        "grids": sorted({_grid(result) for system in systems for result in system.results}),
        "counts": sorted({int(found[1]) for found in chosen}),
        "made": runs.made(systems, [], None),
        "signatures": sorted({score["signature"] for score in scores if score.get("signature")}),
    }


def _known(scores: Dict[str, float]) -> Dict[str, float]:
    """Those of metrics that the report knows."""
    return {key: score for key, score in scores.items() if key in METRICS}


def _shortened(systems: Sequence[System]) -> List[int]:
    """The shortened examples of a task in each set: the most that a system has."""
    data = [result["data"].get("shortened", {}) for system in systems for result in system.results]
    return [max(each.get(name, 0) for each in data) for name in ("train", "valid")]


def _difference(label: Label, baseline: Optional[Label], tasks: Dict[str, List[System]]) -> Optional[float]:
    """The difference in the first metric, the mean over all tasks and the seeds that both systems have in each."""
    scores = [{one.label: one.scores(task, ranking_metric([one], task)) for one in own} for task, own in tasks.items()]
    if baseline is None or not all({label, baseline} <= known.keys() for known in scores):
        return None
    common = set.intersection(*(set(known[one]) for known in scores for one in (label, baseline)))
    pairs = [(known[label][seed], known[baseline][seed]) for known in scores for seed in common]
    return mean(own - other for own, other in pairs) if pairs else None


def _grid(result: Result) -> Tuple[Tuple[float, ...], int]:
    """The learning rates that were tried, and the number of seeds."""
    cells = [(cell["learning_rate"], cell["seed"]) for cell in result.get("grid", [])]
    return tuple(sorted({rate for rate, _ in cells})), len({seed for _, seed in cells})


def _columns(task: str, systems: Sequence[System], labels: Sequence[Label]) -> List[Column]:
    """A column for each metric that a system has."""
    there = {system.label: system for system in systems}
    run = [there.get(label) for label in labels]
    columns: List[Column] = []
    for key in METRICS:
        scores = [spread(system.scores(task, key).values()) if system else None for system in run]
        if any(scores):
            columns.append(Column(task, key, scores, [""] * len(run) if columns else [_rates(task, s) for s in run]))
    return columns


def _rates(task: str, system: Optional[System]) -> str:
    """The chosen learning rate of each pretraining seed; one if they are the same."""
    texts = [test["settings"] for test in system.tests(task).values()] if system else []
    return " / ".join(dict.fromkeys(found[2] for found in map(CHOSEN.search, texts) if found))


def _average(label: Label, tasks: Dict[str, List[System]]) -> Optional[float]:
    """The mean of a system's first metrics over all tasks; None if one is missing."""
    own = [(task, system) for task, systems in tasks.items() for system in systems if system.label == label]
    if len(own) < len(tasks):
        return None
    scores = [spread(system.scores(task, ranking_metric([system], task)).values()) for task, system in own]
    return mean(score.mean for score in scores if score) if all(scores) else None
