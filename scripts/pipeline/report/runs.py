"""The costs, data, commands, commits and versions of the runs of a recipe, as data."""

import re
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple

from ..results.file import TEXT_COUNTS, Result
from .alike import changes
from .benchmarks import Steps
from .systems import Label, System, half_precision, mean

PLACES = re.compile(r"--(arch|seed) \S+")
SHARED = {"runs at a time": "jobs", "threads": "threads"}
"""What times depend on, beside the hardware, and its entries."""

Grouped = List[Tuple[Any, List[Label]]]
"""Distinct values, each with its systems; if there is only one value, without systems."""


def grouped(pairs: Iterable[Tuple[Label, Any]], all_named: bool = False) -> Grouped:
    """The distinct values in order, without empty ones.

    A single value that all systems have comes without them, unless ``all_named``.
    """
    found: Grouped = []
    for label, value in pairs:
        all_named = all_named or not value
        labels = next((labels for known, labels in found if known == value), None)
        if labels is None and value:
            found.append((value, [label]))
        elif labels is not None and label not in labels:
            labels.append(label)
    return [(found[0][0], [])] if len(found) == 1 and not all_named else found


def made(
    systems: Sequence[System], unfinished: Sequence[Result], baseline: Optional[System], tokens: str = "tokens"
) -> Dict[str, Any]:
    """How the runs were made; unfinished runs count for commands, commits and versions."""
    runs = [(system.label, result) for system in systems for result in system.results]
    every = [*runs, *((Label(result["arch"], result["variant"]), result) for result in unfinished)]
    commands: Dict[str, Dict[Label, List[int]]] = {}  # with ARCH and SEED, to the seeds of each system
    for label, result in every:
        command = _ordered(PLACES.sub(lambda option: f"--{option[1]} {option[1].upper()}", result["run"]["command"]))
        commands.setdefault(command, {}).setdefault(label, []).append(result["seed"])
    tables = [costs(system, tokens) for system in systems]
    columns = {key: [table[key] for table in tables] for key in (tables[0] if tables else ())}
    common = [key for key, cells in columns.items() if len(set(cells)) == 1 and len(cells) > 1]
    changed = [(system.label, changes(system, baseline)) for system in systems if baseline]
    return {
        "data": grouped((label, _data(result["data"])) for label, result in runs),  # numbers by name
        "prepared": grouped((label, result["data"].get("command")) for label, result in runs),
        "averaged": grouped((label, result["training"]["averaged"]) for label, result in runs),
        "scored": {test["subset"]: name for _, result in runs for name, test in result["tests"].items()},
        "commands": commands,
        "otherwise": grouped(changed, all_named=True),  # than the baseline
        "commits": grouped((label, _commit(result)) for label, result in every),
        "versions": grouped((label, _listed(result["run"]["versions"])) for label, result in every),
        "common_costs": {key: columns[key][0] for key in common if columns[key][0]},
        "costs": {key: cells for key, cells in columns.items() if key not in common and any(cells)},
    }


def _data(data: Dict[str, Any]) -> Dict[str, Any]:
    """The facts recorded about the training data."""
    known = {**(data.get("pairs") or {}), **{key: data.get(key) for key in ("kept", "merges", "vocabulary")}}
    known.update({unit: data.get(unit, {}).get("train") for unit in TEXT_COUNTS})
    return {key: number for key, number in known.items() if number is not None}


def _ordered(command: str) -> str:
    """A command with its options in the order of their names, so that it equals one with them in another order."""
    before, _, flags = f"{command} ".partition(" -- ")
    script, *options = re.split(r" (?=--)", before.strip())
    return " ".join([script, *sorted(options), *(["--", flags.strip()] if flags.strip() else [])])


def _commit(result: Result) -> str:
    notes = [f"{key} {value}" for key, value in result["entries"].items()]
    return ", ".join([result["run"].get("commit") or "not recorded", *notes])


def _listed(values: Dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def costs(system: System, tokens: str) -> Dict[str, str]:
    """The costs of the trainings and their last losses, means over seeds; empty if not known.

    Args:
        tokens: what to call the tokens that count.
    """
    ends = [2 ** result["curve"]["valid"]["nll"][-1] for result in system.results if result["curve"]["valid"]["nll"]]
    timed = all("jobs" in result["run"] for result in system.results)  # known how many runs shared the machine
    times, rates = (
        [result["training"][key] for result in system.results] if timed else []
        for key in ("seconds", "target_tokens_per_second")
    )
    trained = round(system.average("parameters_trained"))
    return {
        "updates": f"{system.average('updates'):,.0f}",
        "parameters trained": f"{trained:,}" if trained != system.parameters else "",
        tokens: f"{system.average('target_tokens'):,.0f}",
        "tokens per update": f"{system.average('target_tokens_per_update'):,.0f}",
        "wall time": _duration(mean(times)) if times and all(times) else "",
        "tokens per second": f"{mean(rates):,.0f}" if rates and all(rates) else "",
        **{name: _recorded(system, key) if timed else "" for name, key in SHARED.items()},
        "checkpoints averaged": ", ".join(dict.fromkeys(str(r["training"]["averaged"]) for r in system.results)),
        "validation perplexity ↓": f"{mean(ends):.2f}" if ends else "",
        "times continued": ", ".join(f"{n} (seed {r['seed']})" for r in system.results if (n := _continued(r))),
        "hardware": "; ".join(dict.fromkeys(map(_hardware, system.results))),
    }


def _continued(result: Result) -> int:
    """How many times a training went on after it had ended or was cut."""
    return max(0, int(result["training"].get("processes", 1)) - 1)


def _recorded(system: System, key: str) -> str:
    return ", ".join(dict.fromkeys(str(result["run"].get(key, "?")) for result in system.results))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min {rest:02d} s"


def _hardware(result: Result) -> str:
    names: List[str] = result["training"]["devices"]
    return ", ".join([*(f"{names.count(name)} x {name}" for name in dict.fromkeys(names)), result["run"]["machine"]])


def speed(system: System, baseline: Optional[System]) -> Optional[float]:
    """Target tokens per second relative to the baseline's; None unless both were measured in the same conditions."""
    if baseline is None:
        return None
    conditions: Set[Tuple[Any, ...]] = {_conditions(result) for result in [*system.results, *baseline.results]}
    if len(conditions) > 1 or None in next(iter(conditions)):
        return None
    own, other = ([result["training"]["target_tokens_per_second"] for result in s.results] for s in (system, baseline))
    return mean(own) / mean(other) if all([*own, *other]) else None


def _conditions(result: Result) -> Tuple[Any, ...]:
    """The conditions on which the speed of a training depends; None if not recorded."""
    run = result["run"]
    training = result["training"]
    rate = training.get("rate", "mean")  # of older files
    return run.get("threads"), run.get("jobs"), run["machine"], tuple(training["devices"]), rate


def choose_steps(systems: Sequence[System], baseline: Optional[System], steps: Sequence[Steps]) -> Optional[Steps]:
    """The benchmark that has the most systems beside the baseline: times of different ones do not compare."""
    several = [(sum(step(system, baseline, one) is not None for system in systems), one) for one in steps]
    return max(several, key=lambda pair: pair[0], default=(0, None))[1]


def step(system: System, baseline: Optional[System], steps: Optional[Steps]) -> Optional[float]:
    """Time of a training step relative to the baseline's in a benchmark; None unless it has both with their criterion
    and optimizer."""
    if baseline is None or steps is None or system.variant or baseline.variant:
        return None
    if any(map(half_precision, [*system.results, *baseline.results])):
        return None
    trained_with = {(one.flags.get("--criterion"), one.flags.get("--optimizer")) for one in (system, baseline)}
    if trained_with != {(steps.criterion, steps.optimizer)} or not {system.arch, baseline.arch} <= set(steps.times):
        return None
    return steps.times[system.arch] / steps.times[baseline.arch]
