"""Sinusoidal positions that a model was trained with, and that fade while it learns others: ``--fade-positions``."""

import dataclasses
from typing import Optional

from torch import Tensor

from .positions import SideConfig
from .positions.absolute import SinusoidalEncoding


class FadingSinusoids(SinusoidalEncoding):
    """Sinusoids that training adds to the embeddings with a weight that falls from 1 to 0 in ``config.fade`` updates.

    The new encoding is there from the beginning. In validation and decoding, the sinusoids are never added.
    """

    def __init__(self, config: SideConfig) -> None:
        super().__init__(dataclasses.replace(config, shift=0, sample=0), self.Options())
        self.weight = 1.0

    def set_num_updates(self, num_updates: int) -> None:
        """Called by fairseq before each update of a training."""
        self.weight = max(0.0, 1 - num_updates / self.config.fade)

    def term(self, tokens: Tensor) -> Optional[Tensor]:
        """What to add to the embeddings of ``tokens`` ``(B, T)``: ``(B, T, C)``, or None."""
        if not (self.training and self.weight):
            return None
        return self.weight * self.embed(self.positions_of(tokens).positions)
