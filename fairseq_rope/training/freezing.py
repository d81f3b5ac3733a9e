"""Trains some of a model's parameters alone, for example the positions and the self-attention of a converted model."""

import re
from typing import Any

from torch import nn


def freeze(model: nn.Module, args: Any) -> None:
    """Freezes the parameters that ``--only-train`` does not name; one that is shared has several names.

    Raises:
        ValueError: it is no regular expression, or no parameter has such a name.
    """
    pattern = getattr(args, "only_train", None)
    if not pattern:
        return
    try:
        named = model.named_parameters(remove_duplicate=False)
        trained = {parameter for name, parameter in named if re.search(pattern, name)}
    except re.error as error:
        raise ValueError(f"--only-train {pattern}: no regular expression: {error}") from None
    if not trained:
        example = max(dict(model.named_parameters()))
        raise ValueError(f"--only-train {pattern}: no parameter has such a name; there is, for example, {example}")
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.requires_grad and parameter in trained)
