"""The expected shape of JSON that others may have written."""

import re
import shlex
from typing import Any, Callable, Dict, List, NamedTuple, Union

LARGEST = 1e15


class Value(NamedTuple):
    """The condition for a single entry, in words and as a test."""

    name: str
    test: Callable[[Any], bool]


Shape = Union[Value, List[Any], Dict[str, Any]]
"""A value; a list of one shape; or entries by name: ``name?`` may be missing, ``*`` is any name."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not re.search("[\ud800-\udfff]", value)  # UTF-8 has no halves of pairs


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -LARGEST <= value <= LARGEST


def _is_command(value: Any) -> bool:
    try:
        return _is_text(value) and shlex.split(value) is not None
    except ValueError:
        return False


def between(least: float, most: float) -> Value:
    return Value(f"a number from {least:g} to {most:g}", lambda value: _is_number(value) and least <= value <= most)


TEXT = Value("text", _is_text)
COMMAND = Value("a shell command", _is_command)
NUMBER = Value("a number", _is_number)
WHOLE = Value("a whole number, at least 0", lambda value: _is_number(value) and isinstance(value, int) and value >= 0)
EVEN = Value("an even number from 2 to 10,000", lambda value: WHOLE.test(value) and value in range(2, 10001, 2))
DIGITS = Value("a whole number", lambda value: re.fullmatch("[0-9]{0,15}", str(value)) is not None)
SEED = Value("a whole number", lambda value: re.fullmatch("[0-9]{1,15}", str(value)) is not None)
PLAIN = Value("text or a number", lambda value: _is_text(value) or _is_number(value))
NULL_OR_NUMBER = Value("a number or null", lambda value: value is None or _is_number(value))
NULL_OR_TEXT = Value("text or null", lambda value: value is None or _is_text(value))


def problem(value: Any, shape: Shape, place: str = "") -> str:
    """The first problem in ``value``, as ``lacks ...`` or ``has ...``; empty if the value has the right shape."""
    wanted = shape.name if isinstance(shape, Value) else "a list" if isinstance(shape, list) else "an object"
    fits = shape.test(value) if isinstance(shape, Value) else isinstance(value, type(shape))
    if not fits:
        return f"has {value!a:.40} as '{place}', which must be {wanted}" if place else f"must be {wanted}"
    if isinstance(shape, list):
        return next((found for entry in value if (found := problem(entry, shape[0], place))), "")
    for key, inner in shape.items() if isinstance(shape, dict) else ():
        name = key.rstrip("?")
        if name not in value and key == name != "*":
            return f"lacks '{place}{name}'"
        for entry in value if name == "*" else {name} & set(value):
            found = problem(entry, TEXT, place) or problem(value[entry], inner, f"{place}{entry}: ")
            if found:
                return found.replace(": ',", "',")
    return ""


def plain(value: Any) -> str:
    """An entry as a text without brackets and quotes."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain(entry)}" for key, entry in value.items())
    return ", ".join(map(plain, value)) if isinstance(value, list) else str(value)
