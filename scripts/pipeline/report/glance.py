"""The first part of the report about a recipe: what to use and what it costs, in one table and a few sentences."""

from typing import Any, Dict, List, Optional, Sequence, Set, Tuple

from ..results.file import Result
from .cells import NOT_RUN, count, label, labels, mean_bleu, signed, system_rows, with_deviation
from .comparison import LEVEL, Difference, differences
from .document import Block, Code, Heading, Inline, Paragraph, Strong, Table, Text
from .systems import System, mean

LAST, FALL = 0.2, 0.01  # of the updates; of the validation loss
COLUMNS = (
    "sacreBLEU, mean ± standard deviation over seeds; * marks a difference to the baseline that is significant "
    f"(p < {LEVEL} with each common seed)."
)
SPEED = (
    " Speed: target tokens per second of training, the baseline's being 1; only where machine, threads and the number "
    "of runs made at a time are recorded and the same."
)

STEP = (
    " Step: time of a training step, the baseline's being 1, where one benchmark file has both (fp32; see the training "
    "steps at the end); not for variants."
)
HALVES = {"--fp16", "--bf16", "--amp", "--memory-efficient-fp16", "--memory-efficient-bf16"}


def glance(
    systems: Sequence[System],
    baseline: Optional[System],
    test: str,
    further: Sequence[str],
    differences_of: Dict[int, Difference],
    claims: Sequence[Inline] = (),
    steps: Sequence[Dict[str, float]] = (),
) -> List[Block]:
    """Best first, by the first test set; nothing if no system has it.

    Args:
        systems: in the order of the rows.
        test: the first test set.
        further: validation set and longer test sets.
        differences_of: the differences to the baseline on ``test``, by the place of the system.
        claims: what there is to say about the papers' claims.
        steps: seconds of a training step by architecture, of each benchmark.
    """
    run = [system for system in systems if system.scores(test, "sacrebleu")]
    if not run:
        return []
    speeds = {id(system): speed(system, baseline) for system in run}
    timed = any(speeds[id(system)] is not None for system in run if system is not baseline)
    costs = {id(system): step(system, baseline, steps) for system in run}
    stepped = any(costs[id(system)] is not None for system in run if system is not baseline)

    def bleu(system: System, name: str) -> str:
        values = list(system.scores(name, "sacrebleu").values())
        return with_deviation(values) if values else NOT_RUN

    def cells(system: System) -> List[Text]:
        first = bleu(system, test)
        row: List[Text] = [Strong(first) if mean_bleu(system, test) == mean_bleu(run[0], test) else first]
        row.append(_difference(system is baseline, differences_of.get(systems.index(system))))
        row += [bleu(system, name) for name in further]
        row.append(f"{parameters(system):,}")
        measured = [*([speeds[id(system)]] if timed else []), *([costs[id(system)]] if stepped else [])]
        return row + [f"{value:.2f}" if value is not None else "" for value in measured]

    header: List[Text] = ["system", Code(test), "difference", *map(Code, further), "parameters"]
    header += [*(["speed"] if timed else []), *(["step"] if stepped else [])]
    table = Table(header, system_rows(run, cells, len(header) - 1))
    sentences = [*_best(run, baseline, test), *_cost(run[0], baseline, speeds[id(run[0])], costs[id(run[0])])]
    blocks: List[Block] = [Heading(3, "At a glance"), Paragraph([*sentences, *_certainty(run, test), *_budget(run)])]
    blocks += [Paragraph(list(claims))] if claims else []
    return [*blocks, Paragraph(COLUMNS + (SPEED if timed else "") + (STEP if stepped else "")), table]


def parameters(system: System) -> int:
    """Mean over seeds."""
    return round(mean(result["training"]["parameters"] for result in system.results))


def speed(system: System, baseline: Optional[System]) -> Optional[float]:
    """Target tokens per second relative to the baseline's; None if they were not measured in the same conditions."""
    if baseline is None:
        return None
    conditions: Set[Tuple[Any, ...]] = {_conditions(result) for result in [*system.results, *baseline.results]}
    if len(conditions) > 1 or None in next(iter(conditions)):
        return None
    own, other = ([result["training"]["target_tokens_per_second"] for result in s.results] for s in (system, baseline))
    return mean(own) / mean(other) if all([*own, *other]) else None


def step(system: System, baseline: Optional[System], steps: Sequence[Dict[str, float]]) -> Optional[float]:
    """Time of a training step relative to the baseline's in the same benchmark; None if there is none of such a run."""
    if baseline is None or any(one.variant or HALVES & set(one.flags) for one in (system, baseline)):
        return None
    both = [seconds for seconds in steps if {system.arch, baseline.arch} <= set(seconds)]
    return both[0][system.arch] / both[0][baseline.arch] if both else None


def _conditions(result: Result) -> Tuple[Any, ...]:
    """What the speed of a training depends on; None in it is what was not recorded."""
    run = result["run"]
    return run.get("threads"), run.get("jobs"), run["machine"], tuple(result["training"]["devices"])


def _difference(is_baseline: bool, difference: Optional[Difference]) -> str:
    if is_baseline or difference is None:
        return "baseline" if is_baseline else ""
    return f"{signed(difference.bleu)} *" if difference.significant else signed(difference.bleu)


def _best(run: Sequence[System], baseline: Optional[System], test: str) -> List[Inline]:
    """The best system, and those that cannot be told from it."""
    best = run[0]
    differences_of, _ = differences(run, best, test)
    close = [system for i, system in enumerate(run) if i in differences_of and not differences_of[i].significant]
    ahead = [
        system
        for i, system in enumerate(run)
        if i in differences_of and differences_of[i].significant and differences_of[i].bleu > 0
    ]
    apart = [system for i, system in enumerate(run) if i not in differences_of and system is not best]
    text: List[Inline] = ["Best on ", Code(test), ": ", *label(best), f", {mean_bleu(best, test):.2f} sacreBLEU"]
    text.append(", which is the baseline." if best is baseline else ".")
    if close:
        text += [" Not distinguishable from it, by paired bootstrap against it: ", *labels(close), "."]
        least = min([best, *close], key=parameters)
        if parameters(least) < parameters(best):
            text += [" The smallest of these is ", *label(least), f" with {parameters(least):,} parameters."]
    if ahead:
        text += [" Significantly better than it over their common seeds, though not over all: ", *labels(ahead), "."]
    worse = len(differences_of) - len(close) - len(ahead)
    if worse:
        rest = "Each other one" if worse > 1 else "The other one"
        text.append(f" {rest} is significantly worse (p < {LEVEL}).")
    if apart:
        text += [" Without a common seed and so not compared with it: ", *labels(apart), "."]
    return text


def _cost(best: System, baseline: Optional[System], relative: Optional[float], slower: Optional[float]) -> List[Inline]:
    """Parameters and speed of the best against the baseline; the benchmark's step if the trainings do not compare."""
    if baseline is None or best is baseline:
        return []
    own, other = parameters(best), parameters(baseline)
    text: List[Inline] = [" ", *label(best)]
    if own == other:
        text += [" has as many parameters as the baseline ", *label(baseline)]
    else:
        more = f"{abs(own - other):,} ({100 * abs(own - other) / other:.1f}%) {'more' if own > other else 'fewer'}"
        text += [f" has {own:,} parameters, {more} than the baseline ", *label(baseline)]
    if relative is not None:
        return [*text, f", and trains at {relative:.2f} of its speed."]
    return [*text, f", and its training step takes {slower:.2f} times as long." if slower is not None else "."]


def _certainty(run: Sequence[System], test: str) -> List[Inline]:
    """What the p values leave open."""
    if len(run) < 2:
        return []
    seeds = [len(system.scores(test, "sacrebleu")) for system in run]
    text = " The p values cover the choice of sentences, not the differences between trainings"
    if max(seeds) == 1:
        return [f"{text}, of which one seed each tells nothing."]
    shown = f"{text}, which the deviation over {count(max(seeds), 'seed')} shows"
    return [f"{shown}; where there is one seed, nothing does." if min(seeds) == 1 else f"{shown}."]


def still_falling(result: Result) -> bool:
    """Whether the validation loss fell by :data:`FALL` or more over the last part, :data:`LAST`, of the updates."""
    curve = result["curve"]["valid"]
    earlier = [nll for at, nll in zip(curve["updates"], curve["nll"]) if at <= (1 - LAST) * curve["updates"][-1]]
    return bool(earlier) and curve["nll"][-1] <= (1 - FALL) * earlier[-1]


def _budget(run: Sequence[System]) -> List[Inline]:
    """That more training could change the order, where it could."""
    falling = sum(any(still_falling(result) for result in system.results) for system in run)
    if not falling:
        return []
    those = "all of them" if falling == len(run) else f"{falling} of {count(len(run), 'system')}"
    fell = f"by {FALL:.0%} or more over the last {LAST:.0%} of the updates"
    return [f" When training ended, the validation loss of {those} still fell, {fell}: more could change the order."]
