"""Tells when a model takes parameters that were trained with another position encoding.

Many encodings have the same parameters, or none, and fairseq compares names and shapes alone. FSDP is not covered.
"""

import logging
from collections import OrderedDict
from typing import Any, Dict, Mapping, Optional

from fairseq.distributed.utils import get_global_rank
from torch import Tensor

from .options import Encodings, changes

logger = logging.getLogger(__name__)


class Parameters(OrderedDict):
    """The parameters in a checkpoint, with the encodings of the model that was trained; copies are without them."""

    encodings: Encodings = {}

    def __reduce__(self) -> Any:  # a checkpoint that is saved again has fairseq's form
        kept = {name: value for name, value in vars(self).items() if name != "encodings"}
        return OrderedDict, (), kept or None, None, iter(self.items())

    @classmethod
    def of(cls, parameters: Mapping[str, Tensor], encodings: Encodings) -> "Parameters":
        """Takes the attributes over as well: PyTorch keeps the versions of modules in one (``_metadata``)."""
        made = cls(parameters)
        vars(made).update(getattr(parameters, "__dict__", {}), encodings=encodings)
        return made


class KnowsEncodings:
    """A model that compares its encodings with those of the checkpoints that it loads."""

    encodings: Encodings = {}
    """Those of its configuration."""

    def load_state_dict(
        self, state_dict: Any, strict: bool = True, model_cfg: Optional[Any] = None, args: Optional[Any] = None
    ) -> Any:
        """As in fairseq; it warns if the model was trained with other encodings."""
        changed = changes(self.encodings, getattr(state_dict, "encodings", {}))
        if changed and get_global_rank() == 0:
            logger.warning("the parameters were trained with %s", changed)
        return super().load_state_dict(state_dict, strict, model_cfg, args)  # type: ignore[misc]


def configuration_in(state: Dict[str, Any]) -> Any:
    """The model's configuration in a checkpoint, as it is stored; None if there is none."""
    return state["args"] if state.get("args") is not None else (state.get("cfg") or {}).get("model")
