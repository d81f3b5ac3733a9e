"""Groups results: the runs of one recipe, variant and architecture are one system. It needs no fairseq."""

import re
import statistics
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Dict, List, Sequence, Tuple

from ..results import Result
from ..scoring.metrics import first_metric
from ..scoring.scored import BLEU, Scored
from ..scoring.statistics import bleu, rows
from ..settings import HALVES

SEED = re.compile(r"--seed \S+")
ARCH = re.compile(r"--arch \S+")
DATA = re.compile(r"^data .*", re.MULTILINE)
FROM = re.compile(r"^from \w+\n", re.MULTILINE)
TASK = re.compile(r"^finetune .*?(?=epochs|$)", re.MULTILINE)
"""The task and its data in the settings of a fine-tuning."""

CHOSEN = re.compile(r"learning rate (\S+)")
"""In the settings of the scores of a fine-tuning."""

VALIDATION = "valid"
"""fairseq's name of the validation set."""


@dataclass(eq=False)
class SystemResults:
    """One architecture, trained in one way, with any number of seeds."""

    arch: str
    variant: str
    settings: str = ""  # which of several
    runs: Dict[int, List[Result]] = field(default_factory=dict)  # by seed; of a fine-tuning, one for each task

    @property
    def name(self) -> str:
        told = ", ".join(filter(None, (self.variant, self.settings)))
        return f"{self.arch} ({told})" if told else self.arch

    @property
    def results(self) -> List[Result]:
        return [result for seed in sorted(self.runs) for result in self.runs[seed]]

    @property
    def parameters(self) -> int:
        return round(statistics.fmean(result.training.parameters for result in self.results))

    @property
    def updates(self) -> Tuple[int, ...]:
        """Of its trainings, each number once."""
        return tuple(sorted({result.training.updates for result in self.results}))

    @property
    def is_plain(self) -> bool:
        """Whether it was trained in fp32 as its architecture is."""
        return not self.variant and not _halves(self.results[0])

    def tests(self, name: str) -> Dict[int, Scored]:
        """One test set, by seed."""
        return {result.seed: result.tests[name] for result in self.results if name in result.tests}

    def scores(self, test: str, metric: str) -> Dict[int, float]:
        """One score of one test set, by seed; sacreBLEU not as stored, with two decimals, but from its statistics."""
        entries = {seed: entry.scores[metric] for seed, entry in self.tests(test).items() if metric in entry.scores}
        exact = metric == BLEU
        return {seed: _exact_bleu(self, test, seed) if exact else entry["score"] for seed, entry in entries.items()}

    def spread(self, test: str, metric: str) -> List[float]:
        """The mean over seeds, and the sample deviation if there is one; of one fine-tuning that of its own seeds."""
        values = tried = list(self.scores(test, metric).values())
        for result in self.results if len(values) == 1 else ():
            if result.grid and test in result.tests and (chosen := CHOSEN.search(result.tests[test].settings)):
                tried = [cell[metric] for cell in result.grid if cell["learning_rate"] == float(chosen[1])]
        deviation = [statistics.stdev(tried)] if len(tried) > 1 else []
        return [statistics.fmean(values), *deviation] if values else []


@cache
def _exact_bleu(system: SystemResults, test: str, seed: int) -> float:
    return bleu(rows(system.tests(test)[seed].statistics))


def _halves(result: Result) -> List[str]:
    """The flags for half precision, a run's own and those that train.sh chose for its devices."""
    return sorted(HALVES & {*result.run.flags.split(), *result.run.batch.split()})


def group(results: Sequence[Result]) -> List[SystemResults]:
    """The systems of one recipe, from its finished runs. Seeds that differ in data, flags, wanted updates, precision,
    averaging, search or grid are not averaged: each such setting is a system of its own. Names tell systems with other
    data.
    """
    found: Dict[Tuple[str, str], Dict[str, SystemResults]] = {}
    grids: Dict[Tuple[str, str, str], Dict[str, int]] = {}  # of each task, numbered: tasks may have different ones
    for result in results:
        if not result.unfinished:
            conditions, by_settings = _conditions(result), found.setdefault((result.arch, result.variant), {})
            tried = grids.setdefault((result.recipe, result.name, conditions), {})
            settings = f"{conditions}, grid {tried.setdefault(_grid(result), len(tried))}"
            system = by_settings.setdefault(settings, SystemResults(result.arch, result.variant))
            system.runs.setdefault(result.seed, []).append(result)
    for by_settings in found.values():
        for number, settings in enumerate(sorted(by_settings) if len(by_settings) > 1 else (), 1):
            by_settings[settings].settings = f"settings {number}"
    systems = [system for by_settings in found.values() for system in by_settings.values()]
    data = {system: "".join(DATA.findall(system.results[0].settings)) for system in systems}
    known = sorted({*data.values()} - {""})  # results of earlier versions do not say
    for system, line in data.items():
        if len(known) > 1 and line:
            system.settings = ", ".join(filter(None, (system.settings, f"data {known.index(line) + 1}")))
    return systems


def _conditions(result: Result) -> str:
    """What scores depend on besides the seed: settings, updates, averaging, search, precision, the model before."""
    settings = TASK.sub("finetune ", SEED.sub("", result.settings or result.run.flags))
    if result.starts_with:  # the same training for all seeds, and another file for each
        settings = FROM.sub(f"from {result.starts_with}\n", settings)
    model = {"max_update": result.pretrained.get("updates"), **result.pretrained, "checkpoint": "", "updates": ""}
    searches = sorted({test.settings for test in result.tests.values() if BLEU in test.scores})
    updates = model if result.grid else result.wanted_updates
    others: Dict[str, Any] = {"updates": updates, "averaged": result.training.averaged, "search": searches}
    others["precision"] = ",".join(_halves(result)) or "fp32"
    return "\n".join([settings, *(f"{name}={value}".replace(" ", "_") for name, value in others.items())])


def differing_settings(systems: Sequence[SystemResults]) -> Dict[str, str]:
    """Of systems whose names do not tell how else they differ: by name, the words of their settings that not all have.

    Variants are named, and so are the grids of fine-tuning.
    """
    results = {system.name: system.results[0] for system in systems if not system.variant}
    words = {name: ARCH.sub("", _conditions(one)).split() for name, one in results.items() if not one.grid}
    common = set.intersection(*map(set, words.values())) if words else set()
    told = {name: " ".join(word for word in own if word not in common) for name, own in words.items()}
    return {name: text for name, text in told.items() if text}


def _grid(result: Result) -> str:
    """The learning rates and seeds that a fine-tuning tried."""
    return str(sorted((cell["learning_rate"], cell["seed"]) for cell in result.grid))


def usable(results: Sequence[Result]) -> Tuple[List[Result], List[str]]:
    """The results that can be compared, and why others cannot: their sets have another text than in earlier files, or
    an earlier file has other scores of the same run."""
    kept: List[Result] = []
    broken: List[str] = []
    runs: Dict[Tuple[str, str, int, str, str], Result] = {}
    texts: Dict[Tuple[str, str], Tuple[str, Any]] = {}
    for result in results:
        if not result.unfinished:
            run = (result.recipe, result.name, result.seed, _conditions(result), _grid(result))
            first = runs.setdefault(run, result)
            if any(first.tests.get(name, test).scores != test.scores for name, test in result.tests.items()):
                broken.append(f"{result.file} has other scores than {first.file}, of the same run: leave one out")
                continue
        own = {(result.recipe, name): (result.file, _text(result, test)) for name, test in result.tests.items()}
        other = next((key for key, (_, text) in own.items() if texts.get(key, ("", text))[1] != text), None)
        if other:
            again = f"{'tune' if result.grid else 'score'} one again"
            broken.append(f"{result.file} has another text in {other[1]} than {texts[other][0]}: {again}")
        else:
            kept.append(result)
            texts = {**own, **texts}
    return kept, broken


def _text(result: Result, test: Scored) -> Any:
    """What tells the sentences of a test set from others; of a language model, also its blocks and tokens, of a
    fine-tuning, how many examples it learned from."""
    tokens, examples = result.data.get("tokens", {}).get(test.subset), result.data.get("examples")
    blocks = [test.settings, tokens] if "perplexity" in test.scores else []
    return [test.sentences, examples, *blocks, *(test.statistics.get(column) for column in ("source_words", "ref_len"))]


def metric_of(systems: Sequence[SystemResults], test: str) -> str:
    """The figure that stands for a test set: the first one that a system has."""
    scores = {key: 1 for system in systems for entry in system.tests(test).values() for key in entry.scores}
    return first_metric(scores) if scores else BLEU


def evaluation_sets(systems: Sequence[SystemResults]) -> Tuple[List[str], List[str]]:
    """The names of the test sets and those of the validation sets: those of most runs first, then in their order."""
    sets = [pair for system in systems for result in system.results for pair in result.tests.items()]
    valid = {name for name, test in sets if test.subset == VALIDATION}
    names = [name for name, _ in Counter(name for name, _ in sets).most_common()]
    return [name for name in names if name not in valid], [name for name in names if name in valid]
