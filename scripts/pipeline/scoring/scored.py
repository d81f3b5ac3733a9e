"""Reads ``scores/SUBSET.json``: the scores of a test set, of ``scripts/score.sh`` with statistics of its sentences."""

from pathlib import Path
from typing import Any, Dict

from ..files import read_shaped
from ..shape import NUMBER, TEXT, WHOLE

BLEU = "sacrebleu"
SCORE = {"score": NUMBER, "signature?": TEXT}
SCORED = {"subset": TEXT, "target?": TEXT, "sentences": WHOLE, "settings": TEXT}


def read_scored(path: Path, remedy: str, metric: str = BLEU) -> Dict[str, Any]:
    """The content of a score file, which has this metric; BLEU comes with statistics.

    Raises:
        Failure: it is missing or damaged; the message names ``remedy``.
    """
    scores = {metric: {"score": NUMBER, "signature": TEXT}, "*": SCORE}
    statistics = {"statistics": {"*": [WHOLE]}} if metric == BLEU else {}
    return read_shaped(path, {**SCORED, "scores": scores, **statistics}, remedy)
