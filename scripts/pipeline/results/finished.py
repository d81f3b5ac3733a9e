"""Answers from result files for a sweep: whether a run is finished, and a table of runs. It needs no fairseq.

A run is finished if its file, made here or on another machine, has the same settings (data, flags; the content of
RUN/settings), the same number of updates, and the scores of every test set.
"""

from typing import Sequence

from ..scoring.metrics import METRICS, first_metric
from ..scoring.table import table as score_table
from .file import Result


def is_finished(result: Result, settings: str, max_update: int, average: int, tests: Sequence[str]) -> bool:
    """Whether a result is from the run with these settings.

    Args:
        settings: the lines of RUN/settings; if the data are not prepared here, without their line.
        average: how many checkpoints the model is the mean of.
        tests: names of the test sets wanted.
    """
    same = set(settings.splitlines()) <= set(result.settings.splitlines()) and result.training.averaged == average
    return not result.unfinished and same and result.wanted_updates == max_update and set(tests) <= set(result.tests)


def is_finished_otherwise(result: Result, settings: str, max_update: int, average: int) -> bool:
    """Whether a result is from a finished run with other settings, updates or averaged checkpoints."""
    return not result.unfinished and not is_finished(result, settings, max_update, average, [])


def summary(result: Result) -> str:
    """The first metric of each test set."""
    metric = METRICS[key := first_metric(next(iter(result.tests.values())).scores)]
    return f"{metric.name} " + ", ".join(
        f"{name} {test.scores[key]['score']:.2f}" for name, test in result.tests.items()
    )


def table(results: Sequence[Result]) -> str:
    """The scores of the runs as aligned text, with a row for each test set."""
    rows = [(f"{result.name} seed {result.seed}", *test) for result in results for test in result.tests.items()]
    return score_table([{"name": name, "subset": subset, "scores": test.scores} for name, subset, test in rows])
