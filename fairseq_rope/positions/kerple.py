"""KERPLE, the logarithmic variant (Chi, Fan, Ramadge, Rudnicky, NeurIPS 2022, arXiv 2205.09921)."""

from typing import Any, Dict

import torch
from torch import Tensor, nn

from .base import PositionEncoding, SideConfig, TokenPositions
from .relative import bias_of_rows, distance_rows

SMALLEST = 0.01  # of both numbers, in the authors' code
LARGEST_INITIAL = (2.0, 1.0)  # of r1 and r2, in the authors' code


class LogarithmicBiasEncoding(PositionEncoding):
    """Adds ``-r1 log(1 + r2 |i - j|)`` to the scaled logits, with two learned positive numbers for each head.

    The paper defines it for a decoder, where ``j <= i``. In the encoder, each direction has its own ``r1`` and ``r2``,
    so a head can tell earlier keys from later ones; the paper's kernel is the case in which the two are equal. The
    layers of a stack share the numbers. As in the authors' code they begin as draws from U(0, 2) and U(0, 1), and are
    at least 0.01. The authors clamp the parameters; here ``r = |parameter| + 0.01``, which has a gradient everywhere.
    """

    own_initial_values = True

    def __init__(self, config: SideConfig, options: Any) -> None:
        super().__init__(config, options)
        largest = torch.tensor(LARGEST_INITIAL)[:, None, None]
        directions = 1 if config.causal else 2  # earlier keys, later keys
        self.rates = nn.Parameter(torch.rand(2, directions, config.num_heads) * largest)

    def prepare(self, query: TokenPositions, key: TokenPositions) -> Dict[str, Tensor]:
        rows, row = distance_rows(query, key)  # of j - i
        is_later = (rows > 0).long() if self.rates.size(1) > 1 else torch.zeros_like(rows)
        r1, r2 = (self.rates.float().abs() + SMALLEST)[:, is_later]  # (R, H) each
        return {"bias": bias_of_rows(row, -r1 * (r2 * rows.abs()[:, None]).log1p())}
