"""Position encodings for machine translation and language models: a fairseq plugin for ``--user-dir``.

Importing the package registers its models and architectures with fairseq, and adds the few classes in fairseq's
checkpoints to the list of PyTorch's safe loading. It also changes fairseq in the few places that
:mod:`fairseq_rope.fairseq_patches` lists. The import reads neither the command line nor the environment.
"""

import logging
import warnings
from importlib.util import find_spec

__version__ = "0.2.0"

for _name, _package in (("torch", "torch"), ("fairseq", "fairseq-fixed")):
    if find_spec(_name) is None:
        raise ModuleNotFoundError(f"fairseq_rope needs {_name}: pip install {_package} (docs/compatibility.md)")

# fairseq's import sets up the log, which is the program's business, and reports that tensorboardX is missing
_handlers, _level = logging.root.handlers[:], logging.root.level
logging.getLogger("fairseq.tasks.text_to_speech").setLevel(logging.WARNING)
with warnings.catch_warnings():  # PyTorch 2.14 deprecates torch.jit.script, which fairseq's models use
    warnings.simplefilter("ignore", FutureWarning)
    import fairseq.models  # noqa: F401

from . import architectures, fairseq_patches, wordpieces  # noqa: E402, F401
from .checkpoints import files as checkpoint  # noqa: E402, F401  (its import extends the list)
from .decoding import task  # noqa: E402, F401
from .language_model import RoFormerLanguageModel  # noqa: E402
from .masked_lm import RoFormerMaskedModel  # noqa: E402
from .training import criterion, masked_criterion, optimizer  # noqa: E402, F401
from .translation import RoFormerModel  # noqa: E402

fairseq_patches.install()
logging.root.handlers[:] = _handlers
logging.root.setLevel(_level)

__all__ = ["RoFormerLanguageModel", "RoFormerMaskedModel", "RoFormerModel", "__version__"]
