"""Runs a recipe from raw text to a table and a report (report.html, report.md), one run after the other.

A run is one architecture, or a variant of one, with one seed: train, average, score every test set. The command skips
runs that finished with the same settings, here or on another machine (their files in --results count). After a kill,
call it again: it continues from the last checkpoint. When one training fails, the others go on. Several calls may share
a folder, each with other architectures or seeds; scripts/Snakefile runs many at a time by itself (docs/sweeps.md).
Flags behind `--` go to fairseq-train for all systems. The report gives times if RUNS_AT_A_TIME says how many runs share
the machine.

Example: scripts/reproduce.sh multi30k --data ~/multi30k --archs "roformer_multi30k transformer_sinusoidal_multi30k"
"""

import logging
from typing import Sequence

from .command import Failure, Signalled, run, say
from .experiment import Experiment
from .processes import run_script
from .results import finished
from .sweep.options import parse
from .sweep.sweep import Sweep


def reproduce(sweep: Sweep) -> None:
    """Raises Failure if a run is not finished at the end."""
    logging.disable(logging.INFO)  # what fairseq and matplotlib say
    sweep.check_inputs()
    if sweep.downloads:
        run_script("download.sh", *sweep.download_options, needed=True)
    sweep.join()
    run_script(sweep.recipe.kind.prepare, *sweep.prepare_options, needed=True)
    for experiment in sweep.experiments:
        if experiment.is_finished():
            say(f"{experiment.name}: finished before ({experiment.file})")
            continue
        say(f"{experiment.name}: {experiment.folder}")
        _run(experiment, sweep)
        if experiment is not sweep.experiments[-1]:
            sweep.make_report(quiet=True)
    sweep.end()


def _run(experiment: Experiment, sweep: Sweep) -> None:
    """Runs an experiment; if it does not end well, its result file says why."""
    try:
        experiment.run()
    except Signalled as ended:
        reason = f"ended by a signal ({ended.name})"
        experiment.collect_unfinished(reason)
        sweep.make_report(quiet=True)
        say(f"{reason}: call again to go on")
        raise
    except Failure as error:
        say(f"{experiment.name}: not finished: {error}")
        experiment.collect_unfinished(experiment.reason(error))
        return
    say(f"{experiment.name}: finished, {finished.summary(experiment.result())}")


def main(argv: Sequence[str]) -> None:
    reproduce(Sweep(parse(argv, __doc__)))


if __name__ == "__main__":
    run(main)
