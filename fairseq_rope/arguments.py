"""The arguments of the command ``fairseq-rope``: their parser, and the types that check them."""

import argparse
from pathlib import Path
from typing import Any, Callable, NoReturn

PROGRAM = "fairseq-rope"


class Parser(argparse.ArgumentParser):
    """A parser that takes no abbreviations and reports an error in one line."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **settings)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{PROGRAM}: error: {message} (see {self.prog} --help)\n")


def whole_number(least: int) -> Callable[[str], int]:
    """The type of an argument that is a whole number of at least ``least``."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or int(text) < least:
            raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, not '{text:.40}'")
        return int(text)

    return parse


def png_file(text: str) -> Path:
    """The type of an argument that names a picture."""
    if Path(text).suffix != ".png":
        raise argparse.ArgumentTypeError(f"must end in .png, not '{text}'")
    return Path(text)
