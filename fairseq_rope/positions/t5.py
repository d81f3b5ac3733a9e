"""T5's relative bias (Raffel et al., JMLR 2020, section 2.1, arXiv 1910.10683; RoFormer eq. 35), alone or beside
learned positions (TUPE's baseline BERT-R, Ke et al. 2021, eq. 5)."""

from dataclasses import dataclass
from typing import Dict

import torch
from torch import Tensor, nn

from .absolute import LearnedEncoding
from .base import PositionEncoding, SideConfig, TokenPositions, option
from .relative import bias_of_rows, check_buckets, distances, t5_buckets


@dataclass(frozen=True)
class T5Options:
    buckets: int = option(32, "number of buckets for distances, both directions together")
    max_distance: int = option(128, "tokens up to which buckets grow; the last holds all beyond")


class BucketedBiasEncoding(PositionEncoding):
    """Adds a learned number ``b`` per head and bucket of ``j - i`` to the scaled logits; layers share the table.

    In the encoder, half of the buckets are for later keys; in the decoder, all are for earlier ones. T5 itself leaves
    the content term unscaled and makes up for it in its initialisation; here it keeps the factor ``1/sqrt(D)``, as in
    other architectures. The table is drawn from N(0, 1/C), as in the Hugging Face port of T5.
    """

    Options = T5Options
    prefix = "t5"

    def __init__(self, config: SideConfig, options: T5Options) -> None:
        super().__init__(config, options)
        check_buckets(self.prefix, options.buckets, options.max_distance)
        self.table = nn.Parameter(torch.empty(options.buckets, config.num_heads))
        nn.init.normal_(self.table, std=config.embed_dim**-0.5)

    def prepare(self, query: TokenPositions, key: TokenPositions) -> Dict[str, Tensor]:
        options = self.options
        buckets = t5_buckets(distances(query, key), not self.config.causal, options.buckets, options.max_distance)
        return {"bias": bias_of_rows(buckets, self.table)}


class LearnedBucketedEncoding(LearnedEncoding, BucketedBiasEncoding):
    """Learned positions, added to the embeddings, and T5's bias in the logits: the absolute and the relative baseline
    at once, BERT-R of TUPE (eq. 5)."""
