"""Tells when a model takes parameters that were trained with another position encoding.

Many encodings have the same parameters, or none, and fairseq compares names and shapes alone.
"""

import logging
from collections import OrderedDict
from typing import Any, Dict, Mapping, Optional

from torch import Tensor

from .options import Encodings, changes, encodings_of

logger = logging.getLogger(__name__)


class Parameters(OrderedDict):
    """The parameters in a checkpoint, with the configuration of the model that was trained; copies are without it."""

    cfg: Any = None

    def __reduce__(self) -> Any:  # a checkpoint that is saved again has fairseq's form
        return OrderedDict, (), None, None, iter(self.items())

    @classmethod
    def of(cls, parameters: Mapping[str, Tensor], cfg: Any) -> "Parameters":
        made = cls(parameters)
        made.cfg = cfg
        return made


class KnowsEncodings:
    """A model that compares its encodings with those of the checkpoints that it loads."""

    encodings: Encodings = {}
    """Those of its configuration."""

    def load_state_dict(
        self, state_dict: Any, strict: bool = True, model_cfg: Optional[Any] = None, args: Optional[Any] = None
    ) -> Any:
        """As in fairseq; it warns if the model was trained with other encodings."""
        changed = changes(self.encodings, encodings_of(getattr(state_dict, "cfg", None)))
        if changed:
            logger.warning("the parameters were trained with %s", changed)
        return super().load_state_dict(state_dict, strict, model_cfg, args)  # type: ignore[misc]


def configuration_in(state: Dict[str, Any]) -> Any:
    """The model's configuration in a checkpoint, as it is stored; None if there is none."""
    return state["args"] if state.get("args") is not None else (state.get("cfg") or {}).get("model")
