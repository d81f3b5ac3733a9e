"""``settings`` of a run: what it was trained on and with which flags."""

from pathlib import Path

from ..command import Failure
from ..steps import fingerprint

NAME = "settings"


def check_data(run: Path, data: Path) -> None:
    """Checks that a run was trained on the data as they are now; a run without settings is anybody's.

    Raises:
        Failure: it was not, or the data are not prepared.
    """
    line = f"data {fingerprint(data, 'binarize', f'has no prepared data: run scripts/prepare.sh --out {data} first')}"
    settings = run / NAME
    if settings.is_file() and line not in settings.read_text(encoding="utf-8").splitlines():
        raise Failure(f"{run} was trained on other data than {data} holds now: give the folder it was trained on")
