"""Measures speed as ratios: candidates take turns in one process, and their times are divided round by round.

Each benchmark has a file of its own. ``timing.py`` measures, ``machine.py`` describes the machine, and ``models.py``
builds models as fairseq's own tools do.
"""

import logging
import warnings


def quiet() -> None:
    """Shows only errors from now on: no reports of fairseq, no warnings of PyTorch and hydra about fairseq's calls."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
