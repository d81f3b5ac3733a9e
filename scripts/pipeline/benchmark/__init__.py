"""Speed as ratios: what is compared runs in turn in one process, and is divided round by round.

One file for each thing that is
measured; ``timing.py`` measures, ``machine.py`` says on what, ``models.py`` builds models as fairseq's own tools do.
"""

import logging
import warnings

from ..command import Failure


class BenchmarkError(Failure):
    """What is asked for cannot be measured; the message is one line."""


def quiet() -> None:
    """Only errors from now on: fairseq reports what it builds, and PyTorch and hydra what fairseq still calls them."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
