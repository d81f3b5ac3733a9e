"""Answers from result files for a sweep: whether a run is finished, and a table of runs. It needs no fairseq.

A run is finished if its file, made here or on another machine, has the same settings (data, flags; the content of
RUN/settings), the same number of updates, and the scores of every test set.
"""

from typing import Sequence

from ..scoring.kinds import METRICS, first_metric
from ..scoring.metrics import table as score_table
from ..systems import System
from .file import Result


def is_finished(result: Result, settings: str, max_update: int, average: int, tests: Sequence[str]) -> bool:
    """Whether a result is from the run with these settings.

    Args:
        result: content of a result file.
        settings: the lines of RUN/settings; if the data are not prepared here, without their line.
        max_update: number of updates wanted.
        average: how many checkpoints the model is the mean of.
        tests: names of the test sets wanted.
    """
    return (
        not result.get("unfinished")
        and set(settings.splitlines()) <= set(result.get("settings", "").splitlines())
        and str(result["run"].get("max_update", result["training"]["updates"])) == str(max_update)
        and result["training"]["averaged"] == average
        and set(tests) <= set(result["tests"])
    )


def is_finished_otherwise(result: Result, settings: str, max_update: int, average: int) -> bool:
    """Whether a result is from a finished run with other settings, updates or averaged checkpoints."""
    return not result.get("unfinished") and not is_finished(result, settings, max_update, average, [])


def summary(result: Result) -> str:
    """The first metric of each test set, and the costs of the training."""
    tests = [(name, first_metric(test["scores"]), test["scores"]) for name, test in result["tests"].items()]
    scores = ", ".join(f"{name} {entries[metric]['score']:.2f}" for name, metric, entries in tests)
    return f"{METRICS[tests[0][1]].name} {scores}; trained for {result['training']['seconds'] / 60:.0f} min"


def table(results: Sequence[Result]) -> str:
    """The scores of the runs as aligned text, with a row for each test set."""
    rows = []
    for result in results:
        name = f"{System(result['arch'], result['variant']).title} seed {result['seed']}"
        rows += [{"name": name, "subset": test, "scores": entry["scores"]} for test, entry in result["tests"].items()]
    return score_table(rows)
