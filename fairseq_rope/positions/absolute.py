"""Absolute baselines: a vector per position, added to the token embedding (RoFormer eqs. 3 and 4)."""

import math
from typing import Any, Dict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import PositionEncoding, Stack, Steps


class SinusoidalEncoding(PositionEncoding):
    """Fixed sinusoids (Vaswani et al. 2017, section 3.5; RoFormer eq. 4), as fairseq and tensor2tensor lay them out.

    Two deviations from the paper's text, kept so that the numbers equal fairseq's: the sines fill the first half of
    the channels and the cosines the second (not alternating), and the wavelengths end at ``10000 * 2 pi`` exactly
    (``C/2 - 1`` steps). The first token has the angle of position ``padding_idx + 1``.
    """

    shift_invariant = False

    def __init__(self, stack: Stack, options: Any) -> None:
        super().__init__(stack, options)
        if stack.embed_dim < 4:
            raise ValueError(f"sinusoids need an --{stack.side}-embed-dim of at least 4, not {stack.embed_dim}")
        self._table = torch.empty(0)

    def _rows(self, num_positions: int) -> Tensor:
        """The first ``num_positions`` rows ``(num_positions, C)``, in fp32."""
        half = self.stack.embed_dim // 2
        frequencies = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / (half - 1)))
        first = self.stack.padding_idx + 1
        positions = torch.arange(first, first + num_positions, dtype=torch.float)
        angles = positions[:, None] * frequencies[None, :]
        table = torch.cat([angles.sin(), angles.cos()], dim=1)
        return F.pad(table, (0, self.stack.embed_dim % 2))

    def table(self, device: torch.device, length: int = 0) -> Tensor:
        """At least the rows of ``length`` positions, ``(rows, C)``, kept from one pass to the next.

        They are computed where they are used, and no buffer: a model that was built on the meta device and then loaded
        would have garbage in it.
        """
        if self._table.device != device or len(self._table) < max(1, length):
            rows = self.stack.max_positions if length <= self.stack.max_positions else 2 * length
            self._table = self._rows(rows).to(device)
        return self._table

    def prepare(self, query: Steps, key: Steps) -> Dict[str, Tensor]:
        self.table(key.positions.device, key.positions.size(1))  # defined for any position: only the table is too short
        return {}

    def embed(self, positions: Tensor) -> Tensor:
        return F.embedding(positions, self.table(positions.device))


class LearnedEncoding(PositionEncoding):
    """A trained vector per position (RoFormer section 2.2), drawn from N(0, 1/C) as in fairseq."""

    shift_invariant = False

    def __init__(self, stack: Stack, options: Any) -> None:
        super().__init__(stack, options)
        self.weight = nn.Parameter(torch.empty(stack.max_positions, stack.embed_dim))
        nn.init.normal_(self.weight, std=stack.embed_dim**-0.5)

    def prepare(self, query: Steps, key: Steps) -> Dict[str, Tensor]:
        self.check_table(len(self.weight), key.positions)
        return super().prepare(query, key)

    def embed(self, positions: Tensor) -> Tensor:
        return F.embedding(positions, self.weight)
