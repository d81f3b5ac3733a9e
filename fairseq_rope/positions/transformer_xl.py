"""Transformer-XL's relative positions (Dai et al., ACL 2019, section 3.3, arXiv 1901.02860; RoFormer eq. 34)."""

from typing import Any, Dict, Tuple

import torch
from torch import Tensor, nn

from .base import PositionEncoding, SideConfig, TokenPositions
from .relative import distance_rows, of_pairs, products_with_rows

INITIAL_STD = 0.02  # of all parameters, in the authors' code


class TransformerXLEncoding(PositionEncoding):
    """Logits ``[(q_i + u) . k_j + (q_i + v) . (W_R r_{i-j})] / sqrt(D)``: the paper's terms (a) to (d).

    ``r`` are sinusoids of ``i - j`` with channels ``[sin | cos]``. Each layer has its own ``W_R``, without bias; the
    layers share ``u`` and ``v`` ``(H, D)``. In the encoder ``i - j`` takes both signs. Unlike the authors' code, this
    class has no memory of an earlier segment, and no dropout on ``r``.
    """

    def __init__(self, config: SideConfig, options: Any) -> None:
        super().__init__(config, options)
        if config.embed_dim % 2:
            raise ValueError(f"sinusoids need an even --{config.side}-embed-dim, not {config.embed_dim}")
        self.u = nn.Parameter(torch.empty(config.num_heads, config.head_dim))
        self.v = nn.Parameter(torch.empty(config.num_heads, config.head_dim))
        for vector in (self.u, self.v):
            nn.init.normal_(vector, std=INITIAL_STD)

    def build_layer(self, attention: nn.Module) -> nn.Module:
        """``W_R``"""
        projection = nn.Linear(self.config.embed_dim, self.config.embed_dim, bias=False)
        nn.init.normal_(projection.weight, std=INITIAL_STD)
        return projection

    def prepare(self, query: TokenPositions, key: TokenPositions) -> Dict[str, Tensor]:
        rows, row = distance_rows(query, key)
        half = torch.arange(0, self.config.embed_dim, 2, dtype=torch.double, device=rows.device)
        angles = -rows[:, None] * 10000 ** (-half / self.config.embed_dim)  # of i - j: (R, C/2)
        sinusoids = torch.cat([angles.sin(), angles.cos()], dim=-1).type_as(self.u)
        return {"sinusoids": sinusoids, "row": row, "u": self.u, "v": self.v}

    def transform(self, q: Tensor, k: Tensor, **context: Tensor) -> Tuple[Tensor, Tensor]:
        """Adds ``u`` to q, so the content term ``q k^T`` has the terms (a) and (c)."""
        return q + context["u"][:, None], k

    def logit_bias(self, q: Tensor, k: Tensor, layer: Any, **context: Tensor) -> Tensor:
        q = (q + (context["v"] - context["u"])[:, None]) * self.logit_scale(q.size(-1))
        products = products_with_rows(q, context["sinusoids"], layer)  # (B, H, T, R), terms (b) and (d)
        bias = of_pairs(products, context["row"])
        return bias if bias.is_cpu else bias.contiguous()  # for PyTorch's kernels
