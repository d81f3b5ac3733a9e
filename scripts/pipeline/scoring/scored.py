"""Reads ``scores/SUBSET.json``: the scores of a test set, of ``scripts/score.sh`` with statistics of its sentences."""

from pathlib import Path
from typing import Annotated, Any, Dict, List

import msgspec

from ..command import Failure
from ..files import read_as, read_json

BLEU = "sacrebleu"


class Score(msgspec.Struct):
    score: Annotated[float, msgspec.Meta(ge=-1e15, le=1e15)]
    signature: str = ""


class Scored(msgspec.Struct):
    """A score file."""

    subset: str
    sentences: int
    settings: str
    scores: Dict[str, Score]
    statistics: Dict[str, List[int]] = {}


def read_scored(path: Path, remedy: str, metric: str = BLEU) -> Dict[str, Any]:
    """The content of a score file, which has this metric; BLEU comes with statistics.

    Raises:
        Failure: it is missing or damaged; the message names ``remedy``.
    """
    scored = read_as(path, Scored, remedy)
    if metric not in scored.scores or (metric == BLEU and not scored.statistics):
        raise Failure(f"{path} lacks {metric}, or its statistics: {remedy}")
    content: Dict[str, Any] = read_json(path, remedy)
    return content
