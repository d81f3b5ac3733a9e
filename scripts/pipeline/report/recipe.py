"""The content of the report on one recipe, as plain data: its systems, columns about them, the answer, variants."""

import re
from typing import Any, Dict, List, Optional, Sequence

from ..results.file import Result, wanted_updates
from ..scoring.kinds import METRICS
from ..scoring.scored import BLEU
from . import runs
from .alike import changes, closest
from .benchmarks import Steps
from .claims import check, papers
from .comparison import Comparison, choose_baseline, length_table, ranked, ranking_metric
from .kinds import kind_of
from .systems import VALIDATION, System, evaluation_sets, group, mean, spread, unfinished

LAST, FALL = 0.2, 0.01
"""A loss still falls if it falls by 1% or more over the last fifth of the updates."""

PUBLISHED_TEST = "newstest2014"
"""The test set of all published figures."""

Recipe = Dict[str, Any]


def make_recipe(
    name: str,
    results: Sequence[Result],
    archs: Sequence[str] = (),
    seeds: Sequence[int] = (),
    arch: Optional[str] = None,
    steps: Sequence[Steps] = (),
) -> Recipe:
    """The recipe from its results, with systems that the user wants or a paper published even if they were not run.

    Args:
        archs: the architectures that the user wants, each with ``seeds``.
        arch: the baseline.
        steps: of benchmarks.

    Returns:
        ``systems``, best first, and columns with an entry for each of them; ``sets``, the test and validation sets,
        also with columns, the ranking one first; the ``metric`` and its ``key``; ``answer``, ``claims`` and
        ``variants``; and facts about the runs.
    """
    trained, cut, kind = group(results), unfinished(results), kind_of(results)
    figures = papers()["published"].get(name, {})
    tests, validation = evaluation_sets(trained)
    tests = tests or [PUBLISHED_TEST if figures else "test"]
    metric = ranking_metric(trained, tests[0], kind.task.metric)
    baseline = choose_baseline(trained, arch, kind.baselines)
    known = {result["arch"] for result in results if not result["variant"] and not result.get("unfinished")}
    ran = ranked(trained, tests[0], metric)
    measured = runs.choose_steps(ran, baseline, steps)
    systems = [*ran, *(System(one) for one in dict.fromkeys([*archs, *figures]) if one not in known)]
    for system in systems:
        system.unfinished = [result["seed"] for result in cut if system.lacks(result)]
        system.wanted = seeds
    longer, comparison = _longer_sets(trained, tests) if kind.tested else [], Comparison(trained, metric)
    names = [tests[0], *validation, *(test for test in tests[1:] if test not in longer), *longer] if systems else []
    sets = [_evaluated(test, systems, baseline, comparison, tests[0], test in longer) for test in names]
    return {
        "name": name,
        "kind": kind,
        "systems": systems,
        "ran": ran,  # those that were; they come first
        "baseline": baseline,
        "speed": [runs.speed(system, baseline) for system in ran],  # of training, the baseline's being 1
        "step": [runs.step(system, baseline, measured) for system in ran],  # its time, the baseline's being 1
        "measured": measured,  # the benchmark of it
        "published": ["" if s.variant else figures.get(s.arch, [""])[0] for s in systems],
        "figures": figures if PUBLISHED_TEST in tests[0] else {},  # score and source by architecture
        "sets": sets,
        "metric": METRICS[metric],
        "key": metric,
        "answer": _answer(ran, baseline, tests[0], comparison),
        "claims": check(papers()["claim"], trained, tests[0], longer[-1] if longer else None, comparison),
        "variants": _variants(trained, [*validation[:1], tests[0]], comparison),
        "unfinished": cut,
        "made": runs.made(ran, cut, baseline, kind.tokens),
        "signatures": _signatures(trained, sets, kind.settings),
        "pictures": {},  # kind to file
        "correlations": [],  # pictures: file, system, seed, encodings, sides
        "rotations": [],  # the lines of the picture "decay", each with its systems
    }


def _evaluated(
    test: str, systems: Sequence[System], baseline: Optional[System], comparison: Comparison, first: str, longer: bool
) -> Dict[str, Any]:
    """A test or validation set, with columns that have an entry for each system, None if it is not known."""
    metric = comparison.metric
    entries = [entry for system in systems for entry in system.tests(test).values()]
    validation = any(entry["subset"] == VALIDATION for entry in entries)
    scores = {key: [spread(system.scores(test, key).values()) for system in systems] for key in METRICS}
    means = [score.mean for score in scores[metric] if score]
    words, counts = _source_words(systems, test), {entry["sentences"] for entry in entries}
    joined = re.fullmatch(r"_x(\d+)", test[len(first) :]) if longer else None
    return {
        "name": test,
        "validation": validation,
        "scores": {key: column for key, column in scores.items() if key == metric or any(column)},  # by metric
        "best": (max if METRICS[metric].higher_is_better else min)(means, default=None),
        "differences": [  # to the baseline
            comparison.difference(system, baseline, test) if baseline and system is not baseline else None
            for system in systems
        ],
        "sentences": counts.pop() if len(counts) == 1 else None,
        "words": (mean(words), max(words)) if words else None,  # of a source sentence, mean and most
        "longer": longer,  # goes with the first set and has longer sentences
        "joined": int(joined[1]) if joined else 0,  # sentences of the first set in one; 0 if it is another text
        "kept": [_kept(system, test, first, metric) for system in systems],
        "lengths": [] if validation else length_table(systems, test),
    }


def _kept(system: System, test: str, first: str, metric: str) -> Optional[float]:
    """The percentage of the same run's score on the first set, the mean over seeds."""
    base = system.scores(first, metric)
    shares = [100 * score / base[seed] for seed, score in system.scores(test, metric).items() if base.get(seed)]
    return mean(shares) if shares else None


def _longer_sets(systems: Sequence[System], tests: Sequence[str]) -> List[str]:
    """The test sets with longer sentences that belong to the first one, the longest last.

    ``NAME_x2`` and ``NAME_x4`` have its sentences joined; ``NAME_long`` has another text.
    """
    longer = [test for test in tests[1:] if re.fullmatch(re.escape(tests[0]) + r"_(x\d+|long)", test)]
    return sorted(longer, key=lambda test: mean(_source_words(systems, test) or [0]))


def _source_words(systems: Sequence[System], test: str) -> List[int]:
    """The source length in words of each sentence of a test set."""
    entries = [entry for system in systems for entry in system.tests(test).values()]
    return next((list(entry["statistics"]["source_words"]) for entry in entries if BLEU in entry["scores"]), [])


def _answer(
    systems: Sequence[System], baseline: Optional[System], test: str, comparison: Comparison
) -> Optional[Dict[str, Any]]:
    """The best system, by how much it is better, how sure that is, its costs; None if no system has the test set."""
    metric = comparison.metric
    run = [system for system in systems if system.scores(test, metric)]
    if not run:
        return None
    best, second = run[0], run[1] if len(run) > 1 else None
    pairs = [(system, comparison.difference(system, best, test)) for system in run[1:]]
    compared = [(system, found) for system, found in pairs if found]
    close = [system for system, found in compared if not found.significant]
    against = second if best is baseline else best
    seeds = [len(system.scores(test, metric)) for system in run]
    smallest = min([best, *close], key=lambda system: (system.parameters, -len(system.scores(test, metric))))
    return {
        "best": best,
        "next": second,
        "difference": comparison.difference(against, baseline, test) if against and baseline else None,
        "count": len(run),
        "tested": any(found.p is not None for _, found in compared),
        "close": close,  # not distinguishable from the best
        "apart": [system for system, found in pairs if not found],  # without a common seed
        "worse": sum(found.significant and not found.better for _, found in compared),
        "smallest": smallest if smallest.parameters < best.parameters else None,
        "seeds": (min(seeds), max(seeds)),
        "falling": sum(any(still_falling(result) for result in system.results) for system in run),
    }


def still_falling(result: Result) -> bool:
    """Whether the validation loss fell by :data:`FALL` or more over the last part :data:`LAST` of the updates.

    A training that ``--patience`` ended had a better loss before its last ones.
    """
    if "--patience" in result["run"]["flags"].split() and result["training"]["updates"] < wanted_updates(result):
        return False
    curve = result["curve"]["valid"]
    earlier = [nll for at, nll in zip(curve["updates"], curve["nll"]) if at <= (1 - LAST) * curve["updates"][-1]]
    return bool(earlier) and curve["nll"][-1] <= (1 - FALL) * earlier[-1]


def _variants(systems: Sequence[System], sets: Sequence[str], comparison: Comparison) -> Dict[str, Any]:
    """Variants and their changes, their differences to the plain architecture by set, and verdicts of the first set."""
    beside = [(system, closest(systems, system, system.arch)) for system in systems if system.variant]
    pairs = [(system, plain) for system, plain in beside if plain]
    found = {test: [comparison.difference(*pair, test) for pair in pairs] for test in sets}
    decided = [(pair[0].label, one.verdict) for pair, one in zip(pairs, found[sets[0]]) if one]
    return {
        "systems": [system for system, _ in pairs],
        "changes": [changes(*pair) for pair in pairs],
        "differences": {test: column for test, column in found.items() if any(column)},
        "verdicts": runs.grouped(decided, all_named=True),
    }


def _signatures(systems: Sequence[System], sets: Sequence[Dict[str, Any]], settings: str) -> List[Any]:
    """Name and text for each metric, the tests (``p``) and the ``settings``, with systems if they differ."""
    entries = [(s.label, entry) for s in systems for test in sets for entry in s.tests(test["name"]).values()]
    names: Dict[Any, List[str]] = {}  # of the metrics, by signature: those with the settings are the same for several
    for key, metric in METRICS.items():
        named = [(label, entry["scores"].get(key, {}).get("signature", "")) for label, entry in entries]
        for text, labels in runs.grouped(named):
            names.setdefault((text, tuple(labels), settings and metric.name), []).append(metric.name)
    found: List[Any] = [(", ".join(same), text, labels) for (text, labels, _), same in names.items()]
    tests: Dict[str, List[str]] = {}  # by the signature of the test: over seeds it has the variances of the test set
    for test in sets:
        for text in dict.fromkeys(one.signature for one in test["differences"] if one and one.signature):
            tests.setdefault(text, []).append(test["name"])
    found += [(f"p on {', '.join(on)}" if len(tests) > 1 else "p", text, []) for text, on in tests.items()]
    texts = runs.grouped((label, entry["settings"]) for label, entry in entries) if settings else []
    return [*found, *((settings, *pair) for pair in texts)]
