"""How the report says a number, a system, and that one was not run."""

from typing import Callable, Dict, List, Sequence, Tuple

if __package__:
    from .document import Code, Inline, Text
    from .systems import System, mean_and_deviation
else:  # run by path
    from document import Code, Inline, Text  # type: ignore[no-redef, import-not-found]
    from systems import System, mean_and_deviation  # type: ignore[no-redef, import-not-found]

NOT_RUN = "not run"


def count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def label(system: System) -> List[Inline]:
    return [Code(system.arch), *([f" ({system.variant})"] if system.variant else [])]


def by_system(found: Sequence[Tuple[System, str]]) -> List[str]:
    """The distinct texts but empty ones; if there are several, each with the systems that it is about."""
    about: Dict[str, Dict[str, None]] = {}
    for system, text in found:
        if text:
            about.setdefault(text, {})[system.name] = None
    return list(about) if len(about) == 1 else [f"{text} ({', '.join(names)})" for text, names in about.items()]


def signed(value: float) -> str:
    return f"{'-' if value < 0 else '+'}{abs(value):.2f}".replace("-", "\u2212")


def with_deviation(values: Sequence[float]) -> str:
    middle, deviation = mean_and_deviation(values)
    return f"{middle:.2f}" if deviation is None else f"{middle:.2f} ± {deviation:.2f}"


def duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60} h {minutes % 60:02d} min" if minutes >= 60 else f"{minutes} min {rest:02d} s"


def system_rows(systems: Sequence[System], cells: Callable[[System], Sequence[Text]], width: int) -> List[List[Text]]:
    """A row for each system, which its name begins and ``width`` cells follow; one that was not run says so."""
    return [[label(s), *(cells(s) if s.runs else [NOT_RUN, *[""] * (width - 1)])] for s in systems]
