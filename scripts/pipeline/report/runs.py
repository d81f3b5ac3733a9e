"""The parts of the report about what went into the runs: data, costs, what did not finish, commands, versions."""

from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from ..results.file import Result
from .cells import by_system, duration, label, system_rows
from .document import Block, Bullets, Code, Heading, Listing, Paragraph, Table, Text
from .systems import System, mean


def data(systems: Sequence[System]) -> List[Block]:
    """What the runs were trained on."""
    lines = [(system, _data_line(result["data"])) for system in systems for result in system.results]
    return [Paragraph(f"Data: {line}.") for line in by_system(lines)]


def _data_line(data: Dict[str, Any]) -> str:
    """What the data are, as far as it is recorded."""
    pairs: Dict[str, Any] = data.get("pairs") or {}
    known: List[Tuple[str, Any]] = [
        ("{:,} training pairs", pairs.get("train")),
        ("{:,} after cleaning", data.get("kept")),
        ("{:,} for validation", pairs.get("valid")),
        ("{:,} BPE merges", data.get("merges")),
        ("a vocabulary of {:,} types", data.get("vocabulary")),
    ]
    parts = [text.format(number) for text, number in known if number is not None]
    return ", ".join(parts)


def costs(systems: Sequence[System]) -> List[Block]:
    """What the trainings took, and where they ended."""

    def cells(system: System) -> List[Text]:
        def average(key: str) -> float:
            return mean(result["training"][key] or 0.0 for result in system.results)

        total, trained = round(average("parameters")), round(average("parameters_trained"))
        ends = [result["curve"]["valid"]["nll"][-1:] for result in system.results]
        last = [2 ** end[0] for end in ends if end]
        return [
            f"{total:,}" if total == trained else f"{total:,} ({trained:,} trained)",
            f"{average('updates'):,.0f}",
            f"{average('target_tokens'):,.0f}",
            f"{average('target_tokens_per_update'):,.0f}",
            duration(average("seconds")) if _timed(system) else "",
            f"{average('target_tokens_per_second'):,.0f}" if _timed(system) else "",
            ", ".join(_distinct(system, lambda result: result["training"]["averaged"])),
            f"{mean(last):.2f}" if last else "",
            "; ".join(_distinct(system, _hardware)),
        ]

    header: List[Text] = ["system", "parameters", "updates", "target tokens", "tokens per update", "wall time"]
    header += ["tokens per second", "checkpoints averaged", "validation perplexity", "hardware"]
    reading = (
        "Means over seeds. Tokens are target tokens, with </s>. Wall time has validation and the writing of "
        "checkpoints in it, and what a kill lost left out. Perplexity is that behind the last update, unaveraged. "
        "Times compare where as many runs shared the machine, and nothing else did; they are left out where it was not "
        "recorded how many."
    )
    table = Table(header, system_rows(systems, cells, len(header) - 1), left=(len(header) - 1,))
    return [Heading(3, "Costs"), Paragraph(reading), table]


def _timed(system: System) -> bool:
    """Whether it is known how many runs shared the machine."""
    return all("jobs" in result["run"] for result in system.results)


def _distinct(system: System, what: Callable[[Result], Any]) -> List[str]:
    return list({str(what(result)): 0 for result in system.results})


def _hardware(result: Result) -> str:
    devices: List[str] = result["training"]["devices"]
    names = [f"{devices.count(name)} x {name}" for name in {name: 0 for name in devices}]
    return ", ".join([*names, str(result["run"]["machine"])])


def stopped(results: Sequence[Result]) -> List[Block]:
    """The runs that did not finish: how far they got, and why no further."""
    if not results:
        return []
    rows: List[List[Text]] = []
    for result in results:
        system, wanted = System(result["arch"], result["variant"]), result["run"].get("max_update")
        reached = f"{result['training']['updates']:,}" + (f" of {int(wanted):,}" if wanted else "")
        rows.append([label(system), str(result["seed"]), reached, str(result["unfinished"])])
    table = Table(["system", "seed", "updates", "reason"], rows, left=(3,))
    return [Heading(3, "Runs that did not finish"), Paragraph("They are in none of the other tables."), table]


def commands(systems: Sequence[System], baseline: Optional[System], unfinished: Sequence[Result] = ()) -> List[Block]:
    """How to make each run again, and with what it was made; those that did not finish come last."""
    lines: List[str] = []
    versions: Set[str] = set()
    named = [(f"{system.name}, seed {seed}", system.runs[seed]) for system in systems for seed in system.seeds]
    for result in unfinished:
        name = System(result["arch"], result["variant"]).name
        named.append((f"{name}, seed {result['seed']}, did not finish", result))
    for title, result in named:
        run = result["run"]
        notes = "".join(f", {key} {value}" for key, value in result["entries"].items())
        commit = run.get("commit") or "not recorded"
        lines += [f"# {title}: commit {commit}{notes}", run["command"], ""]
        versions.add(", ".join(f"{name} {number}" for name, number in run["versions"].items()))
    blocks: List[Block] = [Heading(3, "Commands, commits and versions")]
    differing = other_settings(systems, baseline)
    if differing:
        blocks += [Paragraph("Trained otherwise than the baseline:"), Bullets(differing)]
    blocks.append(Listing("\n".join([*_steps(systems), *lines[:-1]])))
    return [*blocks, Bullets([f"Versions: {text}." for text in sorted(versions)])]


def _steps(systems: Sequence[System]) -> List[str]:
    """What goes before and after each training; the same for all runs, or said for each of the ways there are."""
    ways: Dict[str, None] = {}
    for result in (result for system in systems for result in system.results):
        lines = [result["data"].get("command", ""), f"scripts/average.sh --run RUN --data DATA --last {_last(result)}"]
        for name, test in result["tests"].items():
            lines.append(
                f"scripts/score.sh --run RUN --data DATA --subset {test['subset']}    # {name}, {test['settings']}"
            )
        ways["\n".join(line for line in lines if line)] = None
    return ["# before each training, and after it:", *"\n\n".join(ways).split("\n"), ""] if ways else []


def _last(result: Result) -> int:
    return int(result["training"]["averaged"])


def other_settings(systems: Sequence[System], baseline: Optional[System]) -> List[Text]:
    """Systems whose flags or updates differ from the baseline's, and in what."""
    items: List[Text] = []
    for system in systems:
        if not system.runs or baseline is None or system is baseline:
            continue
        changed = changes(system, baseline)
        if changed:
            items.append([*label(system), ": ", Code(changed)])
    return items


def changes(system: System, than: System) -> str:
    """Flags and updates in which one system differs from another; both were run."""
    own, other = system.flags, than.flags
    changed = [f"{flag} {own[flag]}".strip() for flag in own if own[flag] != other.get(flag)]
    changed += [f"without {flag}" for flag in other if flag not in own]
    updates = system.results[0]["training"]["updates"]
    if updates != than.results[0]["training"]["updates"]:
        changed.append(f"{updates:,} updates")
    return ", ".join(changed)
