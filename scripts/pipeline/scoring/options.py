"""What ``scripts/score.sh`` and ``scripts/evaluate.sh`` share: options about the run and the test set."""

import re
from pathlib import Path
from typing import Iterable, List, Optional

from ..command import Failure, Parser, say, to_path
from ..provenance import read_record
from ..settings import is_unfinished
from ..steps import read_stamp

UPDATES = re.compile(r"checkpoint_\d+_(\d{1,18})\.pt\b")
"""The name of a checkpoint that was saved after so many updates."""


def run_parser(doc: Optional[str], prepare: str, behind: str = "") -> Parser:
    """A parser with the run, the data that the script ``prepare`` made, and the test set."""
    parser = Parser(doc, behind)
    parser.add_argument("--run", type=to_path, required=True, help="output of scripts/train.sh and scripts/average.sh")
    parser.add_argument("--data", type=to_path, required=True, help=f"output of scripts/{prepare}")
    parser.add_argument("--subset", metavar="NAME", default="test", help="test, test1, ... or valid (default: test)")
    parser.add_argument("--name", help="name of the run in the table (default: the path of RUN)")
    return parser


def averaged(run: Path) -> Path:
    """The averaged checkpoint of a run.

    Raises:
        Failure: there is none.
    """
    checkpoint = run / "checkpoint.pt"
    if not checkpoint.is_file():
        raise Failure(f"{run} has no checkpoint.pt: run scripts/average.sh --run {run} --data DATA first")
    return checkpoint


def tell_of_training(run: Path) -> None:
    """Tells the user if a training has not ended, or has a later checkpoint than those that were averaged."""
    if is_unfinished(run):
        say(f"{run} is not trained to its end: its checkpoint.pt is the model of an earlier update")
    averaged_ones = str(read_stamp(run, "average").get("settings"))
    there = " ".join(path.name for path in run.glob("checkpoints/*.pt"))
    last, newest = (max(map(int, UPDATES.findall(names)), default=0) for names in (averaged_ones, there))
    if 0 < last < newest:
        say(f"{run}/checkpoint.pt is of {last:,} updates, the training of {newest:,}: scripts/average.sh averages anew")


def trained_flags(run: Path) -> List[str]:
    """The flags of a run's training; none if its folder does not say."""
    return read_record(run, "give the output of scripts/train.sh").flags.split()


def check_subset(data: Path, subset: str, indices: Iterable[Path]) -> None:
    """Raises Failure unless there is such a test set.

    Args:
        indices: the files ``SUBSET*.idx`` of the data.
    """
    there = sorted({path.name.split(".")[0] for path in indices})
    if subset not in there:
        raise Failure(f"{data} has no test set '{subset}'; there are: {' '.join(there)}")
