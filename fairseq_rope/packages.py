"""Packages that only some commands need."""

from importlib import import_module
from typing import Any


def package(name: str) -> Any:
    """The package or module.

    Raises:
        ValueError: it cannot be imported.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise ValueError(f"{name} cannot be imported ({error}): pip install {name.split('.')[0]}") from error
