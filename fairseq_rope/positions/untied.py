"""Positions with projections of their own, as in TUPE, and the encoding that adds them to queries and keys."""

from typing import Any, ClassVar, Dict, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import PositionEncoding, SideConfig, TokenPositions, is_read_at_once, looked_up

INITIAL_STD = 0.02  # of all matrices, in the authors' code


class ProjectedPositions(PositionEncoding):
    """A learned table, its layer norm ``p``, and the projections ``U_Q`` and ``U_K``, which the layers share.

    As in TUPE's code, the projections have a bias. Encoder and decoder have separate tables.
    """

    shift_invariant = False
    has_table = True

    rows_before: ClassVar[int] = 0
    """Rows of the table before that of position 0."""

    def __init__(self, config: SideConfig, options: Any) -> None:
        super().__init__(config, options)
        self.table = nn.Parameter(torch.empty(self.rows_before + config.max_positions, config.embed_dim))
        self.norm = nn.LayerNorm(config.embed_dim)
        self.q_proj = nn.Linear(config.embed_dim, config.embed_dim)
        self.k_proj = nn.Linear(config.embed_dim, config.embed_dim)
        for weight in (self.table, self.q_proj.weight, self.k_proj.weight):
            nn.init.normal_(weight, std=INITIAL_STD)
        for projection in (self.q_proj, self.k_proj):
            nn.init.zeros_(projection.bias)

    def _vectors(self, positions: Tensor) -> Tensor:
        """``p`` of every position up to the last of ``positions``, or of all that the table has: ``(rows, C)``."""
        rows = int(positions.max()) + 1 if is_read_at_once(positions) else self.config.max_positions
        return self.norm(self.table[self.rows_before : self.rows_before + rows])

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.config.num_heads, -1)).transpose(-3, -2)  # (..., T, C) -> (..., H, T, D)


class LearnedUntiedEncoding(ProjectedPositions):
    """TUPE's ablation BERT-A^d (Ke et al. 2021, section 4.3): ``(x_i W_Q + p_i U_Q) . (x_j W_K + p_j U_K) / sqrt(4D)``.

    Its product has the four terms of absolute positions that are added to the embeddings, but with other projections
    for positions than for words. Nothing is added to the embeddings. The paper states the formula with its scale; the
    scale keeps the variance of a sum of four independent products. The authors' code has no such model: we take over
    TUPE's layer norm of the table, the bias of the projections, and the initial values.
    """

    def logit_scale(self, head_dim: int) -> float:
        return (4 * head_dim) ** -0.5

    def prepare(self, query: TokenPositions, key: TokenPositions) -> Dict[str, Tensor]:
        self.check_table(self.config.max_positions, key)
        projections = {"position_q": self.q_proj, "position_k": self.k_proj}
        if query.positions.size(1) == 1:  # a step of decoding has fewer positions than the table
            p = self.norm(F.embedding(query.positions, self.table))
            return {name: self._heads(project(p)) for name, project in projections.items()}
        p = self._vectors(key.positions)  # projected once, then distributed over the sentences
        return {name: self._heads(looked_up(project(p), query.positions)) for name, project in projections.items()}

    def transform(self, q: Tensor, k: Tensor, **context: Tensor) -> Tuple[Tensor, Tensor]:
        return q + context["position_q"].type_as(q), k + context["position_k"].type_as(k)
