"""A model's parameters; the export takes each one once, so it cannot forget any."""

from typing import Any

import numpy as np
import torch
from torch import nn


class Parameters:
    """Copies of a model's parameters by name, in fp32 on the CPU, with a list of those that nobody has taken yet."""

    def __init__(self, model: nn.Module, prefix: str = "") -> None:
        state = {f"{prefix}{name}": value for name, value in model.state_dict().items()}
        self._left = {name: value for name, value in state.items() if not name.endswith(".version")}

    def take(self, name: str) -> Any:
        """A copy, as an array, because the engine's quantisation works in place."""
        return self._left.pop(name).detach().to("cpu", torch.float32, copy=True).numpy()

    def embedding(self, spec: Any, name: str) -> None:
        spec.weight = self.take(f"{name}.weight")

    def norm(self, spec: Any, name: str) -> None:
        spec.gamma, spec.beta = self.take(f"{name}.weight"), self.take(f"{name}.bias")

    def linear(self, spec: Any, *names: str) -> None:
        """One linear layer whose outputs are those of several layers, one behind the other."""
        spec.weight = np.concatenate([self.take(f"{name}.weight") for name in names])
        if f"{names[0]}.bias" in self._left:
            spec.bias = np.concatenate([self.take(f"{name}.bias") for name in names])

    def check_none_left(self) -> None:
        """Raises ValueError if a parameter was not taken: without it the engine would compute something else."""
        if self._left:
            raise ValueError(f"{next(iter(self._left))} cannot be exported: CTranslate2's engine has no place for it")
