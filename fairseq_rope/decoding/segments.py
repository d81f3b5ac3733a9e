"""Blocks of documents whose segments are translated one to one, so that the search never loses its place."""

from typing import Any, Tuple

import torch
from torch import Tensor

from .packed import PackedDecoder

UNLIKELY = 1e3
"""What is subtracted from the logit of a token that may not come next: finite, as a translation may have to be cut."""


class SegmentDecoder(PackedDecoder):
    """The decoder's steps for texts in segments with a separator between them.

    In its n-th segment, the translation attends to the n-th segment of the source alone, and it ends after the same
    number of segments. The encoder and the self-attention see the whole text. Without this, models lose their place:
    they repeat segments and leave others out, more so in longer texts. The pairing is the group attention of
    G-Transformer (Bao et al., ACL 2021, arXiv 2105.14761), which is trained with it; here it guides the search alone.

    Args:
        source: the tokens of B sources, ``(B, S)``.
        separators: of source and translation.
        pad, eos: special symbols.
        arguments: as of :class:`.PackedDecoder`.
    """

    def __init__(self, source: Tensor, separators: Tuple[int, int], pad: int, eos: int, *arguments: Any) -> None:
        super().__init__(*arguments)
        ends = source.eq(separators[0]).long()
        self.last = ends.sum(1, keepdim=True)  # (B, 1): the number of the last segment, from 0
        self.segments = (ends.cumsum(1) - ends).masked_fill(source.eq(pad), -1)  # (B, S); a separator ends its own
        self.current = self.last  # (B, beams): the segment of the token that comes next
        self.separator, self.eos = separators[1], eos

    def features(self, tokens: Tensor) -> Tensor:
        ended = tokens.eq(self.separator).sum(1).view(len(self.last), -1)
        self.current = torch.minimum(ended, self.last)
        self.source.hidden = self.current[..., None] != self.segments[:, None]  # (B, beams, S)
        return super().features(tokens)

    def logits(self, tokens: Tensor, buffer: Tensor) -> Tensor:
        logits = super().logits(tokens, buffer)
        is_last = self.current.eq(self.last).flatten()
        logits[:, self.separator] -= UNLIKELY * is_last
        logits[:, self.eos] -= UNLIKELY * ~is_last
        return logits

    def keep(self, kept: Tensor) -> None:
        super().keep(kept)
        self.last, self.segments = self.last[kept], self.segments[kept]
