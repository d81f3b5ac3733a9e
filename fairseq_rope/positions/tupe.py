"""TUPE: untied positional encoding (Ke, He, Liu, ICLR 2021, arXiv 2006.15595)."""

from dataclasses import dataclass
from typing import Dict

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..interception import is_matrix
from ..products import matmul
from .base import SideConfig, TokenPositions, is_read_at_once, looked_up, option
from .relative import bias_of_rows, check_buckets, distances, t5_buckets
from .t5 import T5Options
from .untied import INITIAL_STD, ProjectedPositions

THETA_ROWS = 2  # rows of the table before those of the positions


@dataclass(frozen=True)
class TupeAOptions:
    no_reset: bool = option(
        False, "treat </s> (<s> in language models) like any other token instead of untying it from its position"
    )


@dataclass(frozen=True)
class TupeROptions(T5Options, TupeAOptions):
    """Those of TUPE-A and of T5's buckets."""


class UntiedAbsoluteEncoding(ProjectedPositions):
    """TUPE-A: positions have their own projections, and their correlation is added to the logits.

    ``(x_i W_Q)(x_j W_K)^T / sqrt(2D) + reset[(p_i U_Q)(p_j U_K)^T / sqrt(2D)]`` (eqs. 7 and 10); nothing is added to
    the embeddings. ``p`` is the layer norm of a learned table. The layers of a stack share the table, the norm, ``U_Q``
    and ``U_K`` (with a bias, as in the authors' code), so the second term is computed once per forward pass.

    Reset (eq. 9): where the query is the special symbol, the term is ``theta_1``; where only the key is, ``theta_2``.
    As in the authors' code, the two numbers of a head are ``(t U_Q)(t U_K)^T / sqrt(2D)`` of two further rows ``t`` of
    the table. In translation the special symbol is ``</s>``, which ends a source and begins a target, wherever padding
    puts it. In a causal language model it is ``<s>``, in a masked one the first token, whatever stands there.
    """

    Options = TupeAOptions
    prefix = "tupe"
    family = "tupe_a"
    rows_before = THETA_ROWS

    def logit_scale(self, head_dim: int) -> float:
        return (2 * head_dim) ** -0.5

    def prepare(self, query: TokenPositions, key: TokenPositions) -> Dict[str, Tensor]:
        self.check_table(self.config.max_positions, key)
        if is_read_at_once(key.positions) and all(torch.equal(x, x[:1].expand_as(x)) for x in key[:2]):
            query, key = query.first_row(), key.first_row()  # one matrix for all
        return {"bias": self._bias(query, key)}

    def _bias(self, query: TokenPositions, key: TokenPositions) -> Tensor:
        """The term added to the logits: ``(B or 1, H, T, S)``."""
        term = self._term(query, key)
        if self.options.no_reset:
            return term
        theta_1, theta_2 = self._thetas()[..., None, None]
        term = torch.where(key.special[:, None, None, :], theta_2, term)
        return torch.where(query.special[:, None, :, None], theta_1, term)

    def _term(self, query: TokenPositions, key: TokenPositions) -> Tensor:
        """The term before the reset: ``(B or 1, H, T, S)``."""
        return self._correlation(query.positions, key.positions)

    def _thetas(self) -> Tensor:
        """What replaces the term where the query, and where only the key, is the special symbol: ``(2, H)``."""
        rows = self.norm(self.table[:THETA_ROWS])  # (2, C)
        q, k = self._heads(self.q_proj(rows)), self._heads(self.k_proj(rows))  # (H, 2, D)
        return (q * k).sum(-1).t() * self.logit_scale(self.config.head_dim)

    def _correlation(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """``(p_i U_Q)(p_j U_K)^T / sqrt(2D)``: ``(B or 1, H, T, S)``."""
        scale = self.logit_scale(self.config.head_dim)
        p = self._vectors(key_positions)  # (rows, C)
        if query_positions.size(1) > 1 or not is_matrix(self.k_proj):
            q, k = self.q_proj(p), self.k_proj(p)  # projected once, then distributed over the sentences
            q = self._heads(looked_up(q, query_positions)) * scale
            return matmul(q, self._heads(looked_up(k, key_positions)).transpose(-2, -1))
        # one step: by associativity no key is projected, (q U_K^T) p^T in place of q (p U_K)^T
        q = self._heads(self.q_proj(F.embedding(query_positions, p))) * scale  # (B, H, 1, D)
        weight, bias = self._heads(self.k_proj.weight.t()), self._heads(self.k_proj.bias[None])  # (H, C, D), (H, 1, D)
        p = F.embedding(key_positions, p)[:, None]  # (B, 1, S, C)
        return (q @ weight.transpose(-2, -1)) @ p.transpose(-2, -1) + q @ bias.transpose(-2, -1)


class UntiedRelativeEncoding(UntiedAbsoluteEncoding):
    """TUPE-R: TUPE-A plus T5's bias per bucket of ``j - i``, unscaled and inside the reset (eqs. 8 and 11).

    As in the authors' code, the two parts are reset separately: the table of the buckets has two further numbers for
    the special symbol's row and column. In the decoder, all buckets are for earlier keys.
    """

    Options = TupeROptions
    family = "tupe_r"

    def __init__(self, config: SideConfig, options: TupeROptions) -> None:
        super().__init__(config, options)
        check_buckets(self.prefix, options.buckets, options.max_distance)
        self.relative = nn.Parameter(torch.empty(options.buckets + 2, config.num_heads))
        nn.init.normal_(self.relative, std=INITIAL_STD)

    def _term(self, query: TokenPositions, key: TokenPositions) -> Tensor:
        options = self.options
        buckets = t5_buckets(distances(query, key), not self.config.causal, options.buckets, options.max_distance)
        return super()._term(query, key) + bias_of_rows(buckets, self.relative)

    def _thetas(self) -> Tensor:
        return super()._thetas() + self.relative[-THETA_ROWS:].flip(0)  # the key's number is the first of the two
