"""DeBERTa's disentangled attention (He, Liu, Gao, Chen, ICLR 2021, section 3.1, arXiv 2006.03654; RoFormer eq. 37)."""

from dataclasses import dataclass
from typing import Any, Dict

import torch
from torch import Tensor, nn

from ..products import matmul
from .base import PositionEncoding, SideConfig, TokenPositions, looked_up, option
from .relative import check_distance, distance_rows, of_pairs, products_with_rows

INITIAL_STD = 0.02  # of all parameters, in the authors' code


@dataclass(frozen=True)
class DebertaOptions:
    span: int = option(512, "distances beyond this many tokens share one row (k in the paper)")
    share_projections: bool = option(
        False, "project relative positions with the matrices of the content instead of their own"
    )


class PositionProjections(nn.Module):
    """One layer's ``W_{k,r}`` and ``W_{q,r}``, without bias."""

    def __init__(self, embed_dim: int) -> None:
        super().__init__()
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=False)
        for projection in (self.k_proj, self.q_proj):
            nn.init.normal_(projection.weight, std=INITIAL_STD)


class DisentangledEncoding(PositionEncoding):
    """Adds content-to-position and position-to-content to the logits, all three scaled by ``1/sqrt(3D)`` (eq. 4).

    ``A_ij = q_i . k_j + q_i . (W_{k,r} P_d(i,j)) + k_j . (W_{q,r} P_d(j,i))``, ``d(i,j) = clamp(i - j + k, 0, 2k - 1)``
    (eq. 3). The layers of a stack share the table P. Each layer has its own projections or, with ``share_projections``,
    uses those of the content. Only the rows of distances that occur are projected. In a step of incremental decoding
    there is one query, and each key meets its own row; the authors' gather for position-to-content needs a square.

    The authors' code, and Hugging Face's after it, looks up ``d(i,j)`` in both terms. This class follows the paper, so
    tables trained with their code do not carry over. It has no layer normalisation of P and no dropout on it (options
    of the authors' code), and no enhanced mask decoder, which belongs to their pretraining.
    """

    Options = DebertaOptions
    prefix = "deberta"

    def __init__(self, config: SideConfig, options: DebertaOptions) -> None:
        super().__init__(config, options)
        check_distance("--deberta-span", options.span)
        self.table = nn.Parameter(torch.empty(2 * options.span, config.embed_dim))
        nn.init.normal_(self.table, std=INITIAL_STD)

    def build_layer(self, attention: nn.Module) -> nn.Module:
        if self.options.share_projections:
            return ContentProjections(attention)
        return PositionProjections(self.config.embed_dim)

    def logit_scale(self, head_dim: int) -> float:
        return (3 * head_dim) ** -0.5

    def prepare(self, query: TokenPositions, key: TokenPositions) -> Dict[str, Tensor]:
        rows, row = distance_rows(query, key)  # of j - i
        span = self.options.span
        return {
            "row": row,
            "relative_keys": looked_up(self.table, (-rows + span).clamp(0, 2 * span - 1)),  # (R, C): d(i, j)
            "relative_queries": looked_up(self.table, (rows.flip(0) + span).clamp(0, 2 * span - 1)),  # d(j, i)
        }

    def logit_bias(self, q: Tensor, k: Tensor, layer: Any, **context: Tensor) -> Tensor:
        row, heads = context["row"], (self.config.num_heads, -1)
        relative_q = layer.q_proj(context["relative_queries"]).unflatten(-1, heads).transpose(0, 1)  # (H, R, D)
        products = products_with_rows(q, context["relative_keys"], layer.k_proj)  # (B, H, T, R)
        content_to_position = of_pairs(products, row)
        if q.size(2) == 1 and relative_q.size(1) == k.size(2):  # one row for each key: R = S
            position_to_content = (k * relative_q.flip(1)).sum(-1)[:, :, None]  # (B, H, 1, S)
        else:
            products = matmul(k, relative_q.transpose(-2, -1))  # (B, H, S, R), of i - j in ascending order
            position_to_content = of_pairs(products, (products.size(-1) - 1 - row).mT).transpose(-2, -1)
        return (content_to_position + position_to_content) * self.logit_scale(q.size(-1))


class ContentProjections(nn.Module):
    """Stands in for :class:`PositionProjections`: the projections of a layer's attention, not registered again."""

    def __init__(self, attention: Any) -> None:
        super().__init__()
        self._attention = (attention,)

    @property
    def k_proj(self) -> nn.Linear:
        return self._attention[0].k_proj

    @property
    def q_proj(self) -> nn.Linear:
        return self._attention[0].q_proj
