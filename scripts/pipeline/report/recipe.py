"""All that the report shows of one recipe, as plain data: a row for each system, the answer, variants, claims."""

import re
from typing import Any, Dict, List, Optional, Sequence

from ..results.file import Result
from ..scoring.kinds import METRICS
from . import runs
from .claims import check, papers
from .comparison import BLEU, choose_baseline, difference, differences, length_table, ranked, ranking_metric
from .systems import VALIDATION, System, evaluation_sets, group, mean, spread, unfinished

LAST, FALL = 0.2, 0.01
"""A loss still falls if it does so by 1% or more over the last fifth of the updates."""

PUBLISHED_TEST = "newstest2014"
"""The test set that all published figures are about."""

Recipe = Dict[str, Any]


def make_recipe(
    name: str,
    results: Sequence[Result],
    archs: Sequence[str] = (),
    seeds: Sequence[int] = (),
    arch: Optional[str] = None,
    steps: Sequence[Dict[str, float]] = (),
) -> Recipe:
    """The recipe from its results, with the systems that were asked for or published and not run.

    Args:
        archs: that were asked for; so were ``seeds`` of each.
        arch: the baseline.
        steps: seconds of a training step by architecture, of each benchmark.

    Returns:
        ``rows`` of the systems, the best first; ``sets``, the test and validation sets, of which the first ranks; the
        ``metric`` and its ``key``; ``answer``, ``claims`` and ``variants``; and what is known of the runs.
    """
    trained, cut = group(results), unfinished(results)
    figures = papers()["published"].get(name, {})
    tests, validation = evaluation_sets(trained)
    tests = tests or [PUBLISHED_TEST if figures else "test"]
    metric, baseline = ranking_metric(trained, tests[0]), choose_baseline(trained, arch)
    known = {system.arch for system in trained if not system.variant}
    extra = [System(one) for one in dict.fromkeys([*archs, *figures]) if one not in known]
    systems = [*ranked(trained, tests[0], metric), *extra]
    for system in systems:
        system.unfinished = [r["seed"] for r in cut if (r["arch"], r["variant"]) == system.label]
    rows = [_row(system, tests[0], metric, seeds, steps, baseline) for system in systems]
    for row in rows:
        row["published"] = figures.get(row["label"].arch, [""])[0] if not row["label"].variant else ""
    longer = _longer_sets(trained, tests)
    names = [tests[0], *validation, *(test for test in tests[1:] if test not in longer), *longer] if systems else []
    sets = [_evaluated(test, systems, rows, baseline, metric, tests[0], test in longer) for test in names]
    return {
        "name": name,
        "rows": rows,
        "ran": [row for row in rows if row["ran"]],
        "sets": sets,
        "metric": METRICS[metric],
        "key": metric,
        "answer": _answer(systems, rows, baseline, tests[0], metric),
        "claims": check(papers()["claim"], trained, tests[0], longer[-1] if longer else None, metric),
        "variants": _variants(trained, [*validation[:1], tests[0]], metric),
        "published": figures if PUBLISHED_TEST in tests[0] else {},
        "unfinished": cut,
        "made": runs.made(systems, cut, baseline),
        "signatures": _signatures(trained, names, next((one["signature"] for one in sets if one["signature"]), "")),
        "pictures": {},  # kind to file
        "correlations": [],  # pictures: file, system, seed, encodings, sides
        "rotations": [],  # the lines of the picture "decay", each with its systems
    }


def _row(
    system: System,
    test: str,
    metric: str,
    wanted: Sequence[int],
    steps: Sequence[Dict[str, float]],
    baseline: Optional[System],
) -> Dict[str, Any]:
    """One system; scores and what follows from them, by the name of the test set, are added for each set."""
    have = sorted(system.scores(test, metric))
    stopped = [seed for seed in system.unfinished if seed not in have]
    ran = bool(system.runs)
    return {
        "label": system.label,
        "ran": ran,
        "seeds": have,  # that have the first test set
        "stopped": stopped,
        "missing": [seed for seed in sorted(wanted) if seed not in [*have, *stopped]],
        "is_baseline": system is baseline,
        "parameters": runs.parameters(system) if ran else 0,
        "speed": runs.speed(system, baseline) if ran else None,  # of training, the baseline's being 1
        "step": runs.step(system, baseline, steps) if ran else None,  # its time, the baseline's being 1
        "costs": runs.costs(system) if ran else {},
        "curves": [result["curve"] for result in system.results],
        "positions": [(seed, system.runs[seed].get("positions", {})) for seed in system.seeds],
        "scores": {},  # by test set and metric, a Spread
        "differences": {},  # to the baseline
        "kept": {},  # percent of the score on the first set
        "lengths": {},  # BLEU by source length
    }


def _evaluated(
    test: str,
    systems: Sequence[System],
    rows: Sequence[Dict[str, Any]],
    baseline: Optional[System],
    metric: str,
    first: str,
    longer: bool,
) -> Dict[str, Any]:
    """A test or validation set; adds to the rows what is by this set."""
    compared, signature = differences(systems, baseline, test, metric) if baseline else ({}, "")
    entries = [entry for system in systems for entry in system.tests(test).values()]
    validation = any(entry["subset"] == VALIDATION for entry in entries)
    buckets, lengths = ([], {}) if validation else length_table(systems, test)
    for system, row in zip(systems, rows):
        by_metric = {key: system.scores(test, key) for key in METRICS}
        row["scores"][test] = {key: spread(scores.values()) for key, scores in by_metric.items() if scores}
        base, own = system.scores(first, metric), by_metric[metric]
        shares = [100 * own[seed] / base[seed] for seed in own if base.get(seed)]
        if longer and shares:
            row["kept"][test] = mean(shares)
        row["differences"][test], row["lengths"][test] = compared.get(system.label), lengths.get(system.label, [])
    keys = [key for key in METRICS if any(key in entry["scores"] for entry in entries)]
    means = [row["scores"][test][metric].mean for row in rows if metric in row["scores"][test]]
    words, counts = _source_words(systems, test), {entry["sentences"] for entry in entries}
    joined = re.fullmatch(r"_x(\d+)", test[len(first) :]) if longer else None
    return {
        "name": test,
        "validation": validation,
        "best": (max if METRICS[metric].higher_is_better else min)(means, default=None),
        "sentences": counts.pop() if len(counts) == 1 else None,
        "words": (mean(words), max(words)) if words else None,  # of a source sentence, mean and most
        "longer": longer,  # goes with the first set and has longer sentences
        "joined": int(joined[1]) if joined else 0,  # sentences of the first set in one; 0 if it is another text
        "metrics": {key: METRICS[key] for key in keys},
        "lengths": buckets,  # source lengths, each with the number of its sentences
        "compared": bool(compared),
        "signature": signature,
    }


def _longer_sets(systems: Sequence[System], tests: Sequence[str]) -> List[str]:
    """The test sets that go with the first one and have longer sentences, the longest last.

    ``NAME_x2``, ``NAME_x4``: its sentences joined; ``NAME_long``: another text.
    """
    longer = [test for test in tests[1:] if re.fullmatch(re.escape(tests[0]) + r"_(x\d+|long)", test)]
    return sorted(longer, key=lambda test: mean(_source_words(systems, test) or [0]))


def _source_words(systems: Sequence[System], test: str) -> List[int]:
    """Source length of each sentence of a test set, in words."""
    entries = [entry for system in systems for entry in system.tests(test).values()]
    return next((list(entry["statistics"]["source_words"]) for entry in entries if BLEU in entry["scores"]), [])


def _answer(
    systems: Sequence[System], rows: Sequence[Dict[str, Any]], baseline: Optional[System], test: str, metric: str
) -> Optional[Dict[str, Any]]:
    """What to use, by how much it is better, how sure that is, what it costs; None if no system has the test set."""
    run = [system for system in systems if system.scores(test, metric)]
    if not run:
        return None
    best, second = run[0], run[1] if len(run) > 1 else None
    compared, _ = differences(run, best, test, metric)
    close = [label for label, found in compared.items() if not found.significant]
    against = second if best is baseline else best
    seeds = [len(system.scores(test, metric)) for system in run]
    by_label = {row["label"]: row for row in rows}
    smallest = min((by_label[label] for label in [best.label, *close]), key=lambda row: int(row["parameters"]))
    return {
        "best": by_label[best.label],
        "baseline": by_label[baseline.label] if baseline else None,
        "next": second.label if second else None,
        "difference": by_label[against.label]["differences"][test] if against else None,  # to the baseline
        "count": len(run),
        "tested": any(found.p for found in compared.values()),
        "close": close,  # not distinguishable from the best
        "ahead": [label for label, found in compared.items() if found.significant and found.better],  # by common seeds
        "apart": [system.label for system in run[1:] if system.label not in compared],  # without a common seed
        "worse": sum(found.significant and not found.better for found in compared.values()),
        "smallest": smallest if smallest["parameters"] < by_label[best.label]["parameters"] else None,
        "seeds": (min(seeds), max(seeds)),
        "falling": sum(any(still_falling(result) for result in system.results) for system in run),
    }


def still_falling(result: Result) -> bool:
    """Whether the validation loss fell by :data:`FALL` or more over the last part, :data:`LAST`, of the updates."""
    curve = result["curve"]["valid"]
    earlier = [nll for at, nll in zip(curve["updates"], curve["nll"]) if at <= (1 - LAST) * curve["updates"][-1]]
    return bool(earlier) and curve["nll"][-1] <= (1 - FALL) * earlier[-1]


def _variants(systems: Sequence[System], sets: Sequence[str], metric: str) -> List[Dict[str, Any]]:
    """Variants beside their architecture without, by set: both scores over common seeds, and their difference."""
    plain = {system.arch: system for system in systems if not system.variant}
    found = []
    for system in (system for system in systems if system.variant and system.arch in plain):
        other = plain[system.arch]
        by_set: Dict[str, Any] = {}
        for test in sets:
            measured = difference(system, other, test, metric)
            if measured:
                scores = [one.scores(test, metric) for one in (other, system)]
                by_set[test] = (*(mean(values[seed] for seed in measured.by_seed) for values in scores), measured)
        verdict = by_set[sets[0]][2].verdict if sets[0] in by_set else ""
        found.append(
            {"label": system.label, "changes": runs.changes(system, other), "sets": by_set, "verdict": verdict}
        )
    return found


def _signatures(systems: Sequence[System], sets: Sequence[str], paired: str) -> List[Any]:
    """Name, text and systems, if they differ, of each metric, of the paired bootstrap (``p``) and of the decoding."""
    entries = [(s.label, entry) for s in systems for test in sets for entry in s.tests(test).values()]
    found: List[Any] = []
    for key, metric in METRICS.items():
        named = [(label, entry["scores"].get(key, {}).get("signature", "")) for label, entry in entries]
        found += [(metric.name, text, labels) for text, labels in runs.grouped(named)]
    found += [("p", paired, [])] if paired else []
    return [*found, *(("decoding", *pair) for pair in runs.grouped((label, e["settings"]) for label, e in entries))]
