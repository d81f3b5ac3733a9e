"""Relative position representations (Shaw, Uszkoreit, Vaswani, NAACL 2018, arXiv 1803.02155; RoFormer eq. 32)."""

from dataclasses import dataclass
from typing import Any, Dict, Optional

import torch
from torch import Tensor, nn

from ..products import matmul
from .base import PositionEncoding, SideConfig, TokenPositions, option
from .relative import check_distance, distances


@dataclass(frozen=True)
class ShawOptions:
    clip: int = option(16, "distances beyond this many tokens share one row (k in the paper)")
    no_values: bool = option(False, "relative keys only, no relative values")
    per_head: bool = option(False, "separate tables for each head, instead of shared by the heads of a layer")


class RelativeTables(nn.Module):
    """One layer's rows ``a^K`` and ``a^V`` of distances -clip..clip, ``(1 or H, 2 clip + 1, D)``.

    They are drawn from Glorot's uniform distribution, like the variables of tensor2tensor's Transformer.
    """

    def __init__(self, heads: int, rows: int, head_dim: int, with_values: bool) -> None:
        super().__init__()
        self.keys = nn.Parameter(torch.empty(heads, rows, head_dim))
        self.values = nn.Parameter(torch.empty(heads, rows, head_dim)) if with_values else None
        bound = (6 / (rows + head_dim)) ** 0.5
        for table in self.parameters():
            nn.init.uniform_(table, -bound, bound)


class RelativeEncoding(PositionEncoding):
    """Adds a vector of the clipped distance to each key and each value (eqs. 3 and 4).

    ``e_ij = q_i . (k_j + a^K_clip(j-i)) / sqrt(D)`` and ``z_i = sum_j alpha_ij (v_j + a^V_clip(j-i))``. Each layer has
    its own tables. Its heads share them, as in tensor2tensor, or have one each, as in the paper's base model. The class
    multiplies with the ``2 clip + 1`` rows first and then distributes the products over the distances, so no tensor of
    size ``T x S x D`` exists (section 3.3 of the paper goes half of that way). All keys beyond the clip share a row:
    their weights, and the gradients of their logits, add up in fp32.
    """

    Options = ShawOptions
    prefix = "shaw"

    def __init__(self, config: SideConfig, options: ShawOptions) -> None:
        super().__init__(config, options)
        check_distance("--shaw-clip", options.clip)
        self.needs_weights = not options.no_values

    def build_layer(self, attention: nn.Module) -> RelativeTables:
        heads = self.config.num_heads if self.options.per_head else 1
        return RelativeTables(heads, 2 * self.options.clip + 1, self.config.head_dim, not self.options.no_values)

    def prepare(self, query: TokenPositions, key: TokenPositions) -> Dict[str, Tensor]:
        clip = self.options.clip
        return {"row": distances(query, key).clamp(-clip, clip) + clip}  # (1, T, S)

    def logit_bias(self, q: Tensor, k: Tensor, layer: Any, **context: Tensor) -> Tensor:
        products = matmul(q * self.logit_scale(q.size(-1)), layer.keys.transpose(-2, -1))  # (B, H, T, 2 clip + 1)
        products = products.to(torch.promote_types(products.dtype, torch.float))
        return products.gather(-1, context["row"].expand(*q.shape[:3], -1))

    def value_bias(self, weights: Tensor, layer: Any, **context: Tensor) -> Optional[Tensor]:
        if layer.values is None:
            return None
        by_row = weights.new_zeros(*weights.shape[:3], layer.values.size(1))  # (B, H, T, 2 clip + 1)
        by_row = by_row.scatter_add(-1, context["row"].expand_as(weights), weights)
        return matmul(by_row.type_as(layer.values), layer.values)
