"""FIRE: functional interpolation for relative positions (Li et al., ICLR 2024, arXiv 2310.04418)."""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Dict

import torch
from torch import Tensor, nn
from torch.amp import is_autocast_available

from .base import PositionEncoding, SideConfig, TokenPositions, option
from .relative import bias_of_rows, check_distance

WIDTH = 32  # of the hidden layer
INITIAL_C = 0.1
SMALLEST_NORMALISER = 1e-6


@dataclass(frozen=True)
class FireOptions:
    threshold: int = option(512, "tokens up to which distances are not interpolated: L before training")


class InterpolatedBiasEncoding(PositionEncoding):
    """Adds ``f_h(psi(i - j) / psi(max(L, i)))`` to the scaled logits, ``psi(x) = log(c x + 1)``.

    ``f`` has one hidden layer of 32 ReLU and an output for each head. ``c`` and ``L`` are learned; as in the authors'
    code, ``L`` is a learned multiple of its first value, and both count by their absolute values. Since ``max(L, i)``
    grows with the text, a distance in a long text has the bias of a shorter one in a text of L tokens.

    The paper defines it for a decoder, where ``j <= i``. In the encoder, ``f`` gets the sign of ``i - j``, and the
    larger position of the two stands for ``i``: ``f_h(sign(i - j) psi(|i - j|) / psi(max(L, i, j)))``. For ``j <= i``
    this is the paper's formula; the argument of ``f`` stays between -1 and 1, and padding does not change it. The
    layers of a stack share ``f``, ``c`` and ``L``: the paper's variant FIRE-S. ``f`` lacks the bias of its last layer,
    which a softmax cancels.
    """

    Options = FireOptions
    prefix = "fire"
    shift_invariant = False
    own_initial_values = True

    def __init__(self, config: SideConfig, options: FireOptions) -> None:
        super().__init__(config, options)
        check_distance("--fire-threshold", options.threshold)
        self.c = nn.Parameter(torch.tensor(INITIAL_C))
        self.multiplier = nn.Parameter(torch.tensor(1.0))
        self.weight, self.bias = nn.Parameter(torch.empty(WIDTH)), nn.Parameter(torch.empty(WIDTH))
        self.output = nn.Parameter(torch.empty(WIDTH, config.num_heads))
        for parameter, inputs in ((self.weight, 1), (self.bias, 1), (self.output, WIDTH)):  # as nn.Linear draws them
            nn.init.uniform_(parameter, -(inputs**-0.5), inputs**-0.5)

    def prepare(self, query: TokenPositions, key: TokenPositions) -> Dict[str, Tensor]:
        queries, keys, length = query.positions, key.positions, key.positions.size(1)
        drawn = key.below or key.gap > 1 or (self.training and self.config.shift)  # positions are no places
        if keys.size(0) == 1 or queries.size(1) == 1 or drawn:  # one matrix for all sentences, or one row for each
            return {"bias": self._bias(queries, keys).type_as(self.c)}
        places = torch.arange(length, device=keys.device)[None]  # each pair once, then distributed over the sentences
        pairs = self._bias(places, places).flatten(2)[0].t()  # (S * S, H)
        return {"bias": bias_of_rows(queries[:, :, None] * length + keys[:, None, :], pairs).type_as(self.c)}

    def _bias(self, queries: Tensor, keys: Tensor) -> Tensor:
        """The bias of each pair of positions, in fp32: ``(B, T)``, ``(B, S)`` -> ``(B, H, T, S)``."""
        i, j = queries[:, :, None], keys[:, None, :]
        threshold = self.multiplier.float().abs() * self.options.threshold
        normaliser = self._psi(torch.maximum(torch.maximum(i, j).float(), threshold)) + SMALLEST_NORMALISER
        x = (i - j).sign() * self._psi((i - j).abs()) / normaliser  # (B, T, S)
        weight, bias = self.weight.float()[:, None], self.bias.float()[:, None]
        device = x.device.type
        with torch.autocast(device, enabled=False) if is_autocast_available(device) else nullcontext():
            hidden = (weight * x.flatten(1)[:, None] + bias).relu()  # (B, WIDTH, T * S)
            return (self.output.float().t() @ hidden).unflatten(-1, x.shape[1:])

    def _psi(self, x: Tensor) -> Tensor:
        return (self.c.float().abs() * x).log1p()
