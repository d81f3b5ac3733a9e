"""How the report says a number, a difference, a system, and that one was not run."""

from typing import Callable, Dict, List, Optional, Sequence, Tuple

from .comparison import Difference
from .document import Code, Inline, Text
from .systems import System, mean, mean_and_deviation

NOT_RUN = "not run"
NOT_FINISHED = "not finished"


def count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def label(system: System) -> List[Inline]:
    return [Code(system.arch), *([f" ({system.variant})"] if system.variant else [])]


def labels(systems: Sequence[System]) -> List[Inline]:
    """One, one and another, or a list with commas."""
    text: List[Inline] = []
    for i, system in enumerate(systems):
        text += [] if i == 0 else [" and " if i == len(systems) - 1 else ", "]
        text += label(system)
    return text


def by_system(texts: Sequence[Tuple[System, str]]) -> List[str]:
    """The distinct texts but empty ones; if there are several, each with the systems that it is about."""
    about: Dict[str, Dict[str, None]] = {}
    for system, text in texts:
        if text:
            about.setdefault(text, {})[system.name] = None
    return list(about) if len(about) == 1 else [f"{text} ({', '.join(names)})" for text, names in about.items()]


def signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'}{abs(value):.2f}".replace("-", "\u2212")


def with_deviation(values: Sequence[float]) -> str:
    middle, deviation = mean_and_deviation(values)
    return f"{middle:.2f}" if deviation is None else f"{middle:.2f} ± {deviation:.2f}"


def mean_bleu(system: System, test: str) -> float:
    """sacreBLEU of a system that has this test set, mean over seeds."""
    return mean(system.scores(test, "sacrebleu").values())


def p_values(difference: Difference) -> str:
    """Of each seed; * if it is significant."""
    values = " / ".join(f"{difference.p[seed]:.4f}" for seed in sorted(difference.p))
    return f"{values} *" if difference.significant else values


def difference_cells(is_baseline: bool, difference: Optional[Difference]) -> List[Text]:
    """The difference and its p values; empty without a common seed."""
    if is_baseline:
        return ["baseline", ""]
    return [signed(difference.bleu), p_values(difference)] if difference else ["", ""]


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min {rest:02d} s"


def system_rows(systems: Sequence[System], cells: Callable[[System], Sequence[Text]], width: int) -> List[List[Text]]:
    """A row for each system, which its name begins and ``width`` cells follow; one that was not run says so."""

    def without(system: System) -> List[Text]:
        return [NOT_FINISHED if system.unfinished else NOT_RUN, *[""] * (width - 1)]

    return [[label(system), *(cells(system) if system.runs else without(system))] for system in systems]
