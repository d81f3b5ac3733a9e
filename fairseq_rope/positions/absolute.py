"""Absolute baselines: a vector per position, added to the token embedding (RoFormer, arXiv eqs. 3 and 4)."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Dict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import PositionEncoding, SideConfig, TokenPositions, looked_up, option


@dataclass(frozen=True)
class SinusoidalOptions:
    formula: str = option(
        "fairseq",
        "frequencies and first position as in fairseq, or as in the paper and in Marian",
        choices=("fairseq", "paper"),
    )


class SinusoidalEncoding(PositionEncoding):
    """Fixed sinusoids (Vaswani et al. 2017, section 3.5; RoFormer, arXiv eq. 4) in the layout of fairseq.

    The sines fill the first half of the channels and the cosines the second (not alternating, as the paper's text has
    it). By default the numbers are fairseq's: the wavelengths end at ``10000 * 2 pi`` exactly (``C/2 - 1`` steps), and
    the first token has the angle of position ``padding_idx + 1``. With the formula of the ``paper`` there are ``C/2``
    steps, and the first token has position 0.
    """

    Options: ClassVar[Any] = SinusoidalOptions
    prefix = "sinusoidal"
    shift_invariant = False

    def __init__(self, config: SideConfig, options: Any) -> None:
        super().__init__(config, options)
        if config.embed_dim < 4:
            raise ValueError(f"sinusoids need an --{config.side}-embed-dim of at least 4, not {config.embed_dim}")
        self._table = torch.empty(0)

    def _rows(self, num_positions: int) -> Tensor:
        """The first ``num_positions`` rows ``(num_positions, C)``, in fp32."""
        half = self.config.embed_dim // 2
        if self.options.formula == "paper":
            exponents = torch.arange(0, 2 * half, 2, dtype=torch.double) / -self.config.embed_dim
            angles = torch.arange(num_positions, dtype=torch.double)[:, None] * 10000**exponents
            return F.pad(torch.cat([angles.sin(), angles.cos()], dim=1).float(), (0, self.config.embed_dim % 2))
        frequencies = torch.exp(torch.arange(half, dtype=torch.float) * -(math.log(10000) / (half - 1)))
        first = self.config.padding_idx + 1
        positions = torch.arange(first, first + num_positions, dtype=torch.float)
        angles = positions[:, None] * frequencies[None, :]
        table = torch.cat([angles.sin(), angles.cos()], dim=1)
        return F.pad(table, (0, self.config.embed_dim % 2))

    def table(self, device: torch.device, length: int = 0) -> Tensor:
        """At least the rows of ``length`` positions, ``(rows, C)``, kept from one pass to the next.

        They are computed where they are used, and no buffer: a model that was built on the meta device and then loaded
        would have garbage in it.
        """
        if self._table.device != device or len(self._table) < max(1, length):
            rows = self.config.max_positions if length <= self.config.max_positions else 2 * length
            self._table = self._rows(rows).to(device)
        return self._table

    def prepare(self, query: TokenPositions, key: TokenPositions) -> Dict[str, Tensor]:
        self.table(key.positions.device, key.bound)  # defined for any position: only the table is too short
        return {}

    def embed(self, positions: Tensor) -> Tensor:
        return F.embedding(positions, self.table(positions.device))


class LearnedEncoding(PositionEncoding):
    """A trained vector per position (RoFormer, arXiv section 2.2), drawn from N(0, 1/C) as in fairseq."""

    shift_invariant = False
    has_table = True

    def __init__(self, config: SideConfig, options: Any) -> None:
        super().__init__(config, options)
        self.weight = nn.Parameter(torch.empty(config.max_positions, config.embed_dim))
        nn.init.normal_(self.weight, std=config.embed_dim**-0.5)

    def prepare(self, query: TokenPositions, key: TokenPositions) -> Dict[str, Tensor]:
        self.check_table(len(self.weight), key)
        return super().prepare(query, key)

    def embed(self, positions: Tensor) -> Tensor:
        return looked_up(self.weight, positions)
