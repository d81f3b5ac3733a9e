"""Position encodings for machine translation: a fairseq plugin for ``--user-dir``.

Importing the package registers its model and architectures with fairseq, and adds the one class that fairseq's
checkpoints need to the list of PyTorch's safe loading.
"""

import argparse

import torch

__version__ = "0.1.0"

if hasattr(torch.serialization, "add_safe_globals"):  # torch >= 2.4; before 2.6 loading is not safe by default
    torch.serialization.add_safe_globals([argparse.Namespace])

from . import architectures  # noqa: E402, F401
from .model import RoFormerModel  # noqa: E402

__all__ = ["RoFormerModel", "__version__"]
