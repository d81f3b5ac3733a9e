"""Steps that are done once: each leaves a stamp with its settings."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Sequence

from .command import Failure, say
from .files import read_as, write_json

STAMPS = ".stamps"


class Steps:
    """The steps of one folder, in their order.

    A step is skipped when its outputs are there and its stamp holds the same settings, including those of all earlier
    steps. It is repeated when a setting has changed or an output is gone.
    """

    def __init__(self, folder: Path, settings: str = "") -> None:
        self.folder = folder
        self.settings = settings

    def setting(self, line: str) -> None:
        """Adds a line to the settings on which the following steps depend."""
        self.settings += f"{line}\n"

    def is_done(self, name: str, *outputs: str) -> bool:
        """Whether the next step is done with the same settings, and its outputs are there."""
        settings = f"{self.settings}step {name}\n"
        same = read_stamp(self.folder, name).get("settings") == settings
        return same and all((self.folder / output).exists() for output in outputs)

    def step(self, name: str, outputs: Sequence[str], work: Callable[[], Optional[Dict[str, Any]]]) -> None:
        """Calls ``work``, which makes the outputs in the folder, unless this is done with the same settings.

        Args:
            work: may return numbers to keep in the stamp.
        """
        done = self.is_done(name, *outputs)
        self.setting(f"step {name}")
        if done:
            say(f"{name}: done before with the same settings")
            return
        say(name)
        start, stamp = time.monotonic(), stamp_path(self.folder, name)
        stamp.parent.mkdir(parents=True, exist_ok=True)  # it tells our folders from others
        stamp.unlink(missing_ok=True)
        numbers = work() or {}
        write_json(stamp, {"settings": self.settings, **numbers})
        say(f"{name}: {time.monotonic() - start:.0f} s")


def stamp_path(folder: Path, name: str) -> Path:
    return folder / STAMPS / f"{name}.json"


def read_stamp(folder: Path, name: str) -> Dict[str, Any]:
    """The stamp of a step; empty if the step is not done, or its stamp is damaged."""
    with suppress(Failure):
        return read_as(stamp_path(folder, name), Dict[str, Any], "")
    return {}
