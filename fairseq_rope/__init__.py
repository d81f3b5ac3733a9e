"""Position encodings for machine translation: a fairseq plugin for ``--user-dir``.

Importing the package registers its model and architectures with fairseq, and adds the few classes that
fairseq's checkpoints need to the list of PyTorch's safe loading.
"""

import argparse
import logging
from typing import Any

import numpy as np
import torch

try:
    from numpy._core import multiarray
except ImportError:  # NumPy 1
    from numpy.core import multiarray  # type: ignore[no-redef]

__version__ = "0.1.0"

# what fairseq puts into checkpoints: its arguments and, with --eval-bleu, scores as NumPy numbers
_IN_CHECKPOINTS: Any = [argparse.Namespace, np.ndarray, np.dtype, multiarray.scalar, multiarray._reconstruct]
_IN_CHECKPOINTS += [type(np.dtype(kind)) for kind in ("float64", "float32", "int64", "int32", "bool")]
torch.serialization.add_safe_globals(_IN_CHECKPOINTS)

# fairseq reports on every import that tensorboardX, which it only needs for speech, is missing
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)

from . import architectures, criterion, optimizer, task  # noqa: E402, F401
from .distributed import refuse_others  # noqa: E402
from .model import RoFormerModel  # noqa: E402

_reference = [f"{architectures.REFERENCE}_{size}" for size in architectures.SIZES]
refuse_others([*architectures.ARCHITECTURES, *_reference])

__all__ = ["RoFormerModel", "__version__"]
