"""What ``scripts/score.sh`` and ``scripts/evaluate.sh`` share: their options, and the file of scores."""

from pathlib import Path
from typing import Any, Dict, List, Optional

import msgspec

from ..command import Failure, Parser, to_path, whole_number
from ..files import read_as
from ..prepared import read_prepared
from ..provenance import code
from .statistics import COLUMNS, ROUNDED, bleu, rows

BLEU = "sacrebleu"


class Scored(msgspec.Struct):
    """A test set with its scores: the content of ``RUN/scores/SUBSET.json``, and a part of a result file."""

    subset: str
    sentences: int
    settings: str
    scores: Dict[str, Dict[str, Any]]  # by metric: "score" and "signature"
    statistics: Dict[str, List[int]] = {}  # of each sentence: the columns of :mod:`.statistics`; BLEU comes with them
    chance: Dict[str, float] = {}  # of a classification: the scores of the most frequent label
    commit: str = ""  # of the program that scored; the training may have had another

    @property
    def inconsistency(self) -> str:
        """A contradiction between BLEU and the statistics of the sentences; empty if there is none."""
        if BLEU not in self.scores:
            return ""
        if set(self.statistics) != set(COLUMNS) or {len(each) for each in self.statistics.values()} != {self.sentences}:
            return f"does not hold the statistics of {self.sentences} sentences"
        stated, computed = self.scores[BLEU]["score"], bleu(rows(self.statistics))
        return f"says {stated} BLEU, its statistics have {computed:.2f}" if abs(stated - computed) > ROUNDED else ""


def read_scored(path: Path, remedy: str, metric: str = BLEU) -> Scored:
    """The content of a score file, which has this metric."""
    scored = read_as(path, Scored, remedy)
    if metric not in scored.scores:
        raise Failure(f"{path} lacks {metric}: {remedy}")
    if reason := scored.inconsistency:
        raise Failure(f"{path} {reason}: {remedy}")
    return scored


def head(run: Path, subset: str, settings: str, checkpoint: str) -> Dict[str, Any]:
    """What a score file says of itself, with the hash of the checkpoint and the commit that scored it."""
    known = {"name": str(run), "subset": subset, "settings": settings, "checkpoint": checkpoint}
    return {**known, "commit": code()}


def run_parser(doc: Optional[str], prepare: str, behind: str = "") -> Parser:
    """A parser with the run, the data that the script ``prepare`` made, the test set, and the size of a batch."""
    parser = Parser(doc, behind)
    parser.add_argument("--run", type=to_path, required=True, help="output of scripts/train.sh and scripts/average.sh")
    parser.add_argument("--data", type=to_path, required=True, help=f"output of scripts/{prepare}")
    parser.add_argument("--subset", metavar="NAME", default="test", help="test, test1, ... or valid (default: test)")
    tokens = (
        "source tokens to work on at once, with padding (default: 8000); it affects scores of documents alone: a "
        "translation that runs on is cut at twice the longest source beside it plus 200 tokens"
    )
    parser.add_argument("--max-tokens", metavar="N", type=whole_number(1), default=8000, help=tokens)
    return parser


def check_subset(data: Path, subset: str) -> None:
    """Raises Failure, which names the sets that there are, unless the data have this one."""
    there = sorted({path.name.split(".")[0] for path in (data / "bin").glob("*.idx")})
    if subset not in there:
        sets = read_prepared(data, "prepare the data again").sets
        named = (f"{name} ({own})" if (own := sets.get(name, name)) != name else name for name in there)
        raise Failure(f"{data} has no test set '{subset}'; there are: {', '.join(named)}")
