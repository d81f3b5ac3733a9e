"""Reads ``scores/SUBSET.json``, where ``scripts/score.sh`` keeps the scores and statistics of a test set."""

from pathlib import Path
from typing import Any, Dict

from ..files import read_shaped
from ..shape import NUMBER, TEXT, WHOLE

SCORE = {"score": NUMBER, "signature?": TEXT}
SCORED = {
    **{"subset": TEXT, "target?": TEXT, "sentences": WHOLE, "settings": TEXT},
    "scores": {"sacrebleu": {"score": NUMBER, "signature": TEXT}, "*": SCORE},
    "statistics": {"*": [WHOLE]},
}


def read_scored(path: Path, remedy: str) -> Dict[str, Any]:
    """The content of a score file.

    Raises:
        Failure: it is missing or damaged; the message names ``remedy``.
    """
    return read_shaped(path, SCORED, remedy)
