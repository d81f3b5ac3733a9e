"""A name that fairseq 0.12 needs, for ``--sample-break-mode eos`` among others, and that NumPy 2 no longer has."""

from types import SimpleNamespace

import numpy as np


def install() -> None:
    """Lets ``numpy.compat.long`` be ``int`` again, where NumPy has no ``compat``."""
    vars(np).setdefault("compat", SimpleNamespace(long=int))
