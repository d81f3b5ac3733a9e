"""PoPE: polar coordinate position embedding (Gopalakrishnan, Csordás, Schmidhuber, Mozer, 2025, arXiv 2509.10534)."""

import math
from dataclasses import dataclass
from typing import Dict, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import PositionEncoding, SideConfig, TokenPositions, option


@dataclass(frozen=True)
class PolarOptions:
    base: float = option(10000.0, "base of the geometric series of frequencies")


class PolarEncoding(PositionEncoding):
    """Content gives only magnitudes, position only phases: ``sum_c mu(q_c) mu(k_c) cos((j - i) theta_c + delta_c)``.

    ``mu`` is softplus and ``theta_c = base^(-c / D)``, a frequency for each channel ``c`` of a head, where RoPE has one
    for each pair. In RoPE the angle between a query and a key, which their content decides, adds to that of their
    distance; here content has no angle. ``delta``, ``(H, D)``, is learned and begins at 0; the layers of a stack share
    it. The paper clamps it to ``[-2 pi, 0]``, the whole circle, at whose ends it stops learning; here it is free, which
    gives the same functions. A magnitude and its phase make two channels, so q and k become ``(B, H, T, 2 D)``; values
    stay. Everything is computed in fp32.
    """

    Options = PolarOptions
    prefix = "pope"
    family = "transformer_pope"
    own_initial_values = True

    def __init__(self, config: SideConfig, options: PolarOptions) -> None:
        super().__init__(config, options)
        if not options.base > 1:
            raise ValueError(f"--pope-base must be greater than 1, not {options.base}")
        self.delta = nn.Parameter(torch.zeros(config.num_heads, config.head_dim))

    def prepare(self, query: TokenPositions, key: TokenPositions) -> Dict[str, Tensor]:
        width = self.config.head_dim
        exponents = torch.arange(width, dtype=torch.double, device=query.positions.device) / -width
        angles = (query.positions.double()[:, None, :, None] * self.options.base**exponents).remainder(2 * math.pi)
        angles = angles.float()  # (B or 1, 1, T, D)
        return {
            "query_directions": _directions(angles),
            "key_directions": _directions(angles + self.delta.float()[:, None]),
        }

    def transform(self, q: Tensor, k: Tensor, **context: Tensor) -> Tuple[Tensor, Tensor]:
        return _vectors(q, context["query_directions"]), _vectors(k, context["key_directions"])


def _directions(angles: Tensor) -> Tensor:
    """The unit vector of each angle: ``(..., D)`` -> ``(..., 2, D)``."""
    return torch.stack([angles.cos(), angles.sin()], dim=-2)


def _vectors(x: Tensor, directions: Tensor) -> Tensor:
    """The vectors with magnitudes softplus(x) ``(B, H, T, D)``, first coordinates before second: ``(B, H, T, 2 D)``."""
    return (F.softplus(x.float())[..., None, :] * directions).flatten(-2)
