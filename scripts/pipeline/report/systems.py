"""Groups results: the runs of one recipe, variant and architecture are one system. It needs no fairseq."""

import re
import statistics
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from ..results.file import Broken, Result, wanted_updates
from ..scoring.scored import BLEU
from ..scoring.statistics import bleu, rows

SEED = re.compile(r"--seed \S+")
HALVES = {"--fp16", "--bf16", "--amp", "--memory-efficient-fp16", "--memory-efficient-bf16"}
VALIDATION = "valid"
"""fairseq's name of the validation set."""


class Spread(NamedTuple):
    """The mean over seeds, and the sample deviation (n - 1), which a single value lacks."""

    mean: float
    deviation: Optional[float] = None


def mean(values: Iterable[float]) -> float:
    return statistics.fmean(values)


def spread(values: Iterable[float]) -> Optional[Spread]:
    """None without values."""
    known = list(values)
    return Spread(mean(known), statistics.stdev(known) if len(known) > 1 else None) if known else None


class Label(NamedTuple):
    """The name of a system."""

    arch: str
    variant: str = ""

    def __str__(self) -> str:
        return f"{self.arch} ({self.variant})" if self.variant else self.arch


@dataclass(eq=False)
class System:
    """One architecture, trained in one way, with any number of seeds; a system without seeds was not run.

    Its figures leave out runs that did not finish.
    """

    arch: str
    variant: str = ""
    runs: Dict[int, Result] = field(default_factory=dict)  # by seed
    unfinished: Sequence[int] = ()  # seeds of runs that did not finish
    wanted: Sequence[int] = ()  # seeds that were asked for
    settings: str = ""  # which of several

    @property
    def label(self) -> Label:
        return Label(self.arch, ", ".join(filter(None, (self.variant, self.settings))))

    def is_beside(self, other: "System") -> bool:
        """Whether another system was to have as many updates, with a common seed."""
        updates = [{wanted_updates(result) for result in system.results} for system in (self, other)]
        return other is not self and updates[0] == updates[1] and bool(set(self.runs) & set(other.runs))

    def lacks(self, unfinished: Result) -> bool:
        """Whether an unfinished run was to be one of this system."""
        alike = (self.arch, self.variant) == (unfinished["arch"], unfinished["variant"])
        return alike and (not self.runs or wanted_updates(unfinished) == wanted_updates(self.results[0]))

    @property
    def seeds(self) -> List[int]:
        return sorted(self.runs)

    @property
    def results(self) -> List[Result]:
        return [self.runs[seed] for seed in self.seeds]

    @property
    def flags(self) -> Dict[str, str]:
        """fairseq-train's flags except seed and architecture; if a flag is repeated, the last one wins. Those for half
        precision that the devices decided are among them."""
        words = re.split(r" (?=--)", self.results[0]["run"]["flags"]) if self.runs else []
        words += half_precision(self.results[0]) if self.runs else []
        flags = dict((f"{word} ".split(" ", 1)) for word in words)
        return {flag: value.strip() for flag, value in flags.items() if flag not in ("--arch", "--seed")}

    @property
    def parameters(self) -> int:
        """The mean over seeds; 0 for a system that was not run."""
        return round(self.average("parameters")) if self.runs else 0

    def average(self, key: str) -> float:
        """The mean of an entry of the training over seeds; a missing entry counts as 0."""
        return mean(result["training"][key] or 0.0 for result in self.results)

    def tests(self, name: str) -> Dict[int, Dict[str, Any]]:
        """The entries of one test set, by seed."""
        return {seed: self.runs[seed]["tests"][name] for seed in self.seeds if name in self.runs[seed]["tests"]}

    def scores(self, test: str, metric: str) -> Dict[int, float]:
        """One score of one test set, by seed; sacreBLEU not as stored, with two decimals, but from its statistics."""
        entries = {seed: entry["scores"].get(metric) for seed, entry in self.tests(test).items()}
        if metric == BLEU:
            return {seed: _exact_bleu(self, test, seed) for seed, score in entries.items() if score}
        return {seed: float(score["score"]) for seed, score in entries.items() if score}


@cache
def _exact_bleu(system: System, test: str, seed: int) -> float:
    return bleu(rows(system.tests(test)[seed]["statistics"]))


def evaluation_sets(systems: Sequence[System]) -> Tuple[List[str], List[str]]:
    """The names of the test sets and those of the validation sets: those of most runs first, then in their order."""
    tests = [test for system in systems for result in system.results for test in result["tests"].items()]
    valid = {name for name, test in tests if test["subset"] == VALIDATION}
    names = sorted(counts := Counter(name for name, _ in tests), key=lambda name: -counts[name])
    return [name for name in names if name not in valid], [name for name in names if name in valid]


def usable(results: Sequence[Tuple[Path, Result]]) -> Tuple[List[Result], List[Broken]]:
    """The results that can be compared, and the files that cannot be used: a run that another file has, or test sets of
    one name with other sentences or blocks than in earlier files. A finished run wins over an unfinished one."""
    kept: List[Result] = []
    left_out: List[Broken] = []
    origin: Dict[Tuple[Any, ...], str] = {}
    texts: Dict[Tuple[str, str], Tuple[str, Any]] = {}
    for path, result in sorted(results, key=lambda pair: bool(pair[1].get("unfinished"))):
        run = (*_key(result), *_settings(result), pretraining(result), result["seed"])
        own = {(result["recipe"], name): (path.name, _text(result, test)) for name, test in result["tests"].items()}
        other = [name for name, (_, text) in own.items() if name in texts and texts[name][1] != text]
        if run in origin:
            left_out.append(Broken(path, f"has the same run as {origin[run]}: remove one, or give it a --variant"))
        elif other:
            first = texts[other[0]][0]
            left_out.append(
                Broken(
                    path,
                    f"has other sentences, blocks or tokens in {other[0][1]} than {first}: score one of them again",
                )
            )
        else:
            origin[run] = path.name
            texts = {**own, **texts}
            kept.append(result)
    return kept, left_out


def group(results: Sequence[Result]) -> List[System]:
    """The systems of one recipe, in the order of their names, from its finished runs.

    It does not average seeds that differ in data, flags, wanted updates, precision, averaging or search: each such
    setting is a system of its own.
    """
    trained: Dict[Tuple[str, str, str], Dict[Tuple[str, int], Dict[int, Result]]] = {}
    for result in results:
        if not result.get("unfinished"):
            runs = trained.setdefault(_key(result), {}).setdefault(_conditions(result), {})
            runs[result["seed"]] = result
    systems = []
    for (_, arch, variant), by_settings in trained.items():
        updates = [count for _, count in by_settings]
        for number, (_, runs) in enumerate(sorted(by_settings.items()), 1):
            what = budget(list(runs.values())) if len(set(updates)) == len(updates) else f"settings {number}"
            systems.append(System(arch, variant, runs, settings=what if len(by_settings) > 1 else ""))
    return sorted(systems, key=lambda system: system.label)


def unfinished(results: Sequence[Result]) -> List[Result]:
    """The runs that did not finish, in the order of architecture, variant and seed."""
    cut = [result for result in results if result.get("unfinished")]
    return sorted(cut, key=lambda result: (result["arch"], result["variant"], result["seed"]))


def _key(result: Result) -> Tuple[str, str, str]:
    return result["recipe"], result["arch"], result["variant"]


def _text(result: Result, test: Dict[str, Any]) -> Any:
    """A key that tells the sentences of a test set from others; of a language model, also its blocks and tokens."""
    statistics = test.get("statistics", {})
    tokens = result["data"].get("tokens", {}).get(test["subset"])
    blocks = [test["settings"], tokens] if "perplexity" in test["scores"] else ""
    return [test["sentences"], blocks, *(statistics.get(column) for column in ("source_words", "ref_len"))]


def _conditions(result: Result) -> Tuple[str, int]:
    """The settings, and what else the scores depend on: precision, averaging, search."""
    text, updates = _settings(result)
    averaged = f"averaged {result['training']['averaged']}"
    return "\n".join([text, averaged, *searches(result), *half_precision(result)]), updates


def pretraining(result: Result) -> str:
    """The updates and the averaging of the model before fine-tuning; empty where they are not recorded."""
    model = result.get("pretrained", {})
    if not model:
        return ""
    wanted = model.get("max_update", model["updates"])  # which seeds with --patience may not need
    updates = f"{model['updates']:,} of {wanted:,}" if model.get("so_far") else f"at most {wanted:,}"
    return f"{updates} updates" + (f", averaged {model['averaged']}" if "averaged" in model else "")


def searches(result: Result) -> List[str]:
    """The settings of the search that made the translations."""
    return sorted({test["settings"] for test in result["tests"].values() if BLEU in test["scores"]})


def budget(results: Sequence[Result]) -> str:
    """The updates of a system in words."""
    wanted = wanted_updates(results[0])
    early = any(result["training"]["updates"] < wanted for result in results)
    return f"{'at most ' if early else ''}{wanted:,} updates"


def half_precision(result: Result) -> List[str]:
    """The flags of a run for half precision, its own and those that train.sh chose for its devices."""
    return sorted(HALVES & set(f"{result['run']['flags']} {result['run'].get('batch', '')}".split()))


def _settings(result: Result) -> Tuple[str, int]:
    """Data, flags and the updates that were wanted, as far as recorded."""
    return SEED.sub("", result.get("settings") or result["run"]["flags"]), wanted_updates(result)
