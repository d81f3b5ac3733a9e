"""ALiBi: attention with linear biases (Press, Smith, Lewis, ICLR 2022, arXiv 2108.12409)."""

import math
from dataclasses import dataclass
from typing import Dict, Optional

import torch
from torch import Tensor

from .base import PositionEncoding, SideConfig, TokenPositions, option
from .relative import distances


@dataclass(frozen=True)
class AlibiOptions:
    split_directions: bool = option(
        False,
        "in the encoder, half of the heads see only earlier keys and the other half only later ones",
        side="encoder",
    )


class LinearBiasEncoding(PositionEncoding):
    """Adds ``-m_h |i - j|`` to the scaled logits, with a fixed slope ``m_h`` for each head; nothing is learned.

    The paper (section 3) defines it for a decoder, where ``j <= i``. In the encoder the same slope serves both
    directions, as the authors propose in the discussion of their code. With ``split_directions``, each direction has
    half of the heads, with the slopes of a model of ``H/2`` heads. The bias is not scaled by ``1/sqrt(D)``.
    """

    Options = AlibiOptions
    prefix = "alibi"

    def __init__(self, config: SideConfig, options: AlibiOptions) -> None:
        super().__init__(config, options)
        self.hides_keys = options.split_directions and not config.causal
        if self.hides_keys and config.num_heads % 2:
            raise ValueError(
                f"--alibi-split-directions needs an even number of heads, not {config.num_heads}: leave it out, "
                "or change --encoder-attention-heads"
            )

    def prepare(self, query: TokenPositions, key: TokenPositions) -> Dict[str, Tensor]:
        distance = distances(query, key)[:, None]  # (B or 1, 1, T, S)
        heads = self.config.num_heads
        per_head = slopes(heads // 2, distance.device).repeat(2) if self.hides_keys else slopes(heads, distance.device)
        bias = -per_head[:, None, None] * distance.abs()  # (B or 1, H, T, S)
        if self.hides_keys:
            earlier, later = bias.chunk(2, dim=1)
            earlier = earlier.masked_fill(distance > 0, -math.inf)
            bias = torch.cat([earlier, later.masked_fill(distance < 0, -math.inf)], dim=1)
        return {"bias": bias}


def slopes(heads: int, device: Optional[torch.device] = None) -> Tensor:
    """``2^(-8h/H)``, h = 1..H, if H is a power of two; else the slopes of the next lower power and, between them, every
    other slope of the next higher one (the authors' interpolation): ``(H,)``, computed on the device, without a sync.
    """
    power = 2 ** int(math.log2(heads))
    first = torch.arange(1, power + 1, dtype=torch.double, device=device) / power
    between = torch.arange(1, 2 * power + 1, 2, dtype=torch.double, device=device) / (2 * power)
    return torch.cat([first, between[: heads - power]]).mul(-8).exp2().float()
