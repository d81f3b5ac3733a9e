"""What a sweep asks of result files: whether a run is finished, and a table of runs.

::

    sweep.py finished FILE --settings TEXT --max-update N --subsets "test=NAME valid=NAME"     exit status 0 if it is
    sweep.py summary FILE       one line
    sweep.py table FILE...

A run is finished if its file, made by ``results.py`` here or on another machine, has the same settings (data, flags;
the content of RUN/settings) and number of updates, and has the scores of every test set. Needs no fairseq.
"""

import argparse
import sys
from pathlib import Path
from typing import Sequence

from .file import Result, ResultError, read_results

OTHER = 3
"""Exit status: the file is of a finished run with other settings or updates. 1: it is of none, or lacks a test set."""


def is_finished(result: Result, settings: str, max_update: int, tests: Sequence[str]) -> bool:
    """Whether a result is that of the run with these settings.

    Args:
        result: content of a result file.
        settings: as ``train.sh --print-settings`` says them.
        max_update: updates that are wanted.
        tests: names of the test sets that are wanted.
    """
    return (
        not result.get("unfinished")
        and result.get("settings", "").strip() == settings.strip()
        and int(result["run"].get("max_update", result["training"]["updates"])) == max_update
        and set(tests) <= set(result["tests"])
    )


def is_finished_otherwise(result: Result, settings: str, max_update: int) -> bool:
    """Whether a result is that of a finished run with other settings or updates."""
    return not result.get("unfinished") and not is_finished(result, settings, max_update, [])


def summary(result: Result) -> str:
    """sacreBLEU of each test set, and what the training took."""
    scores = ", ".join(f"{name} {test['scores']['sacrebleu']['score']:.2f}" for name, test in result["tests"].items())
    return f"sacreBLEU {scores}; trained for {result['training']['seconds'] / 60:.0f} min"


def table(results: Sequence[Result]) -> str:
    """The scores of the runs as aligned text, a row for each test set."""
    from ..scoring.score import table as score_table

    rows = []
    for result in results:
        variant = f" ({result['variant']})" if result["variant"] else ""
        name = f"{result['arch']}{variant} seed {result['seed']}"
        rows += [{"name": name, "subset": test, "scores": found["scores"]} for test, found in result["tests"].items()]
    return score_table(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="what", required=True)
    finished = commands.add_parser("finished", help="exit status 0 if the run is finished, 3 if another is")
    finished.add_argument("file", type=Path, help="result file")
    finished.add_argument("--settings", required=True, help="settings of the run")
    finished.add_argument("--max-update", type=int, required=True, help="updates")
    finished.add_argument("--subsets", required=True, help="SUBSET=NAME ...: the test sets")
    short = commands.add_parser("summary", help="one line about a run")
    short.add_argument("file", type=Path, help="result file")
    shown = commands.add_parser("table", help="print the scores")
    shown.add_argument("files", type=Path, nargs="+", help="result files")
    args = parser.parse_args()
    try:
        if args.what == "table":
            print(table([result for _, result in read_results(args.files)]))
            return
        ((_, result),) = read_results([args.file])
        if args.what == "summary":
            print(summary(result))
            return
    except ResultError as error:
        sys.exit(f"error: {error}")
    tests = [word.split("=", 1)[1] for word in args.subsets.split()]
    if is_finished(result, args.settings, args.max_update, tests):
        return
    sys.exit(OTHER if is_finished_otherwise(result, args.settings, args.max_update) else 1)


if __name__ == "__main__":
    main()
