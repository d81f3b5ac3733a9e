"""Blocks of documents whose segments are translated one for one: no place is lost, however long the text is."""

from typing import Any, Tuple

import torch
from torch import Tensor

from .packed import PackedDecoder

UNLIKELY = 1e4
"""What the logit of a token loses that may not follow now: less than infinity, as a translation may have to be cut."""


class SegmentDecoder(PackedDecoder):
    """The decoder's steps for texts in segments with a separator between them.

    In its n-th segment, the translation attends to the n-th segment of the source alone, and it ends after as many
    segments. The encoder and the self-attention see the whole text. Without this, models lose the place: they repeat
    segments and leave others out, the more the longer the text is. The groups are those of G-Transformer (Bao et al.,
    ACL 2021, arXiv 2105.14761), which is trained with them; here they only guide the search.

    Args:
        source: the tokens of B sources, ``(B, S)``.
        separators: of source and translation.
        pad, eos: special symbols.
        arguments: as of :class:`.PackedDecoder`.
    """

    def __init__(self, source: Tensor, separators: Tuple[int, int], pad: int, eos: int, *arguments: Any) -> None:
        super().__init__(*arguments)
        ends = source.eq(separators[0]).long()
        self.last = ends.sum(1, keepdim=True)  # (B, 1), counted from 0
        self.segments = (ends.cumsum(1) - ends).masked_fill(source.eq(pad), -1)  # (B, S); a separator ends its own
        self.separator, self.eos = separators[1], eos

    def _current(self, tokens: Tensor) -> Tensor:
        """The segment to which the token behind ``tokens`` ``(rows, T)`` belongs: ``(B, beams)``."""
        ended = tokens.eq(self.separator).sum(1).view(len(self.last), -1)
        return torch.minimum(ended, self.last)

    def features(self, tokens: Tensor) -> Tensor:
        self.source.hidden = self._current(tokens)[..., None] != self.segments[:, None]  # (B, beams, S)
        return super().features(tokens)

    def logits(self, tokens: Tensor, buffer: Tensor) -> Tensor:
        logits, is_last = super().logits(tokens, buffer), self._current(tokens).eq(self.last).flatten()
        logits[:, self.separator] -= UNLIKELY * is_last
        logits[:, self.eos] -= UNLIKELY * ~is_last
        return logits

    def keep(self, kept: Tensor) -> None:
        super().keep(kept)
        self.last, self.segments = self.last[kept], self.segments[kept]
