"""Speed as ratios: what is compared runs in turn in one process, and is divided round by round.

``python -m pipeline.benchmark train --help``, or ``scripts/benchmark.sh``. One file for each thing that is
measured; ``timing.py`` measures, ``machine.py`` says on what, ``models.py`` builds models as fairseq's own tools do.
"""

import logging
import warnings


class BenchmarkError(ValueError):
    """What is asked for cannot be measured; the message is one line."""


def quiet() -> None:
    """Only errors from now on: fairseq reports what it builds, and PyTorch and hydra what fairseq still calls them."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
