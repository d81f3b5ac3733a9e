"""Position encodings for machine translation: a fairseq plugin for ``--user-dir``.

Importing the package registers its model and architectures with fairseq, and adds the one class that fairseq's
checkpoints need to the list of PyTorch's safe loading.
"""

import argparse
import logging

import torch

__version__ = "0.1.0"

if hasattr(torch.serialization, "add_safe_globals"):  # torch >= 2.4; before 2.6 loading is not safe by default
    torch.serialization.add_safe_globals([argparse.Namespace])

# fairseq reports on every import that tensorboardX, which it only needs for speech, is missing
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)

from . import architectures  # noqa: E402, F401
from .model import RoFormerModel  # noqa: E402

__all__ = ["RoFormerModel", "__version__"]
