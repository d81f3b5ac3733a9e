"""Keys and values of earlier decoding steps, in buffers with room for the next ones."""

from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

ROOM = 32  # steps
SHORT = 16
"""Steps of the shortest tails that are copied together; others have 4, 16, ... times as many."""

IncrementalState = Dict[str, Dict[str, Optional[Tensor]]]
"""The tensors that fairseq's modules keep from one step of decoding to the next, under a name for each module."""


class Tail(NamedTuple):
    """The last steps of some rows, in which they differ from those that they continue."""

    rows: Tensor
    sources: Tensor
    """The former row that each of ``rows`` continues."""
    length: int
    """How many steps, at most."""


def tails(tokens: Tensor, order: Tensor) -> Optional[List[Tail]]:
    """What differs where row ``i`` continues the former row ``order[i]`` of the same sentence.

    Beams of one sentence differ mostly in their last tokens: rows that begin with the same tokens have the same keys
    and values there. None if that spares little, and on a GPU, which would have to be waited for.

    Args:
        tokens: ``(rows, S)``, of the former rows, those of the cached steps.
        order: ``(rows,)``, int64.
    """
    if tokens.device.type != "cpu" or len(order) != len(tokens):
        return None
    differs, length = tokens[order].ne(tokens), tokens.size(1)
    lengths = torch.where(differs.any(1), length - differs.byte().argmax(1), 0)
    if 4 * int(lengths.sum()) > tokens.numel():  # a copy within a buffer goes through memory twice
        return None
    found, shortest, longest = [], 0, SHORT
    while shortest < length:
        rows = (lengths.gt(shortest) & lengths.le(longest)).nonzero()[:, 0]
        if len(rows):
            found.append(Tail(rows, order[rows], min(longest, length)))
        shortest, longest = longest, 4 * longest
    return found


class KeyValueCache:
    """The keys and values of all steps so far; a new step is written behind them, without a copy of the others.

    There are two buffers. When beams change places, :meth:`append` copies the rows from one buffer to the other in
    their new order, or their tails within one. Both are kept, because fresh memory costs more than the copy. The result
    of :meth:`append` is valid until the next call.
    """

    def __init__(self) -> None:
        self.buffer: Optional[Tensor] = None  # (2, B, H, room, D): keys, and values, which may be narrower
        self.spare: Optional[Tensor] = None
        self.order: Optional[Tensor] = None  # the order in which to take the rows next
        self.tails: Optional[List[Tail]] = None  # all that differs in that order
        self.length = 0

    def reorder(self, order: Tensor, tails: Optional[List[Tail]] = None) -> None:
        """Row ``i`` continues the former row ``order[i]``; ``order`` may be longer or shorter than the batch.

        ``tails`` is the result of :func:`tails`, or None.
        """
        self.tails = tails if self.order is None else None
        self.order = order if self.order is None else self.order[order]

    def append(self, k: Tensor, v: Tensor) -> Tuple[Tensor, Tensor]:
        """Takes T new steps ``(B, H, T, D)`` and returns the keys and values of all S steps, ``(B, H, S, D)``."""
        batch, width, past_length, length = k.size(0), v.size(-1), self.length, self.length + k.size(2)
        if torch.is_grad_enabled():  # nothing may be written in place
            new = torch.stack([k, F.pad(v, (0, k.size(-1) - width))])
            if self.buffer is not None:
                past = self.buffer[:, :, :, :past_length]
                past = past[:, :batch] if self.order is None else past.index_select(1, self.order)
                new = torch.cat([past, new], dim=3)
            self.buffer, self.spare, self.order, self.tails = new, None, None, None
        else:
            if self.buffer is not None and self.tails is not None and self.buffer.size(3) >= length:
                self._move_tails(self.buffer[:, :, :, :past_length].transpose(0, 1))
            if self.buffer is None or self.order is not None or self.buffer.size(3) < length:
                self._move(k, length)
            assert self.buffer is not None
            self.buffer[0, :batch, :, past_length:length] = k
            self.buffer[1, :batch, :, past_length:length, :width] = v
        self.length = length
        return self.buffer[0, :batch, :, :length], self.buffer[1, :batch, :, :length, :width]

    def _move_tails(self, past: Tensor) -> None:
        """Copies within ``past``, ``(B, 2, H, S, D)``, what differs in the new order."""
        assert self.tails is not None
        ends = [past[:, :, :, -tail.length :] for tail in self.tails]
        copies = [end.index_select(0, tail.sources) for tail, end in zip(self.tails, ends)]
        for tail, end, copy in zip(self.tails, ends, copies):
            end.index_copy_(0, tail.rows, copy)
        self.order = self.tails = None

    def _move(self, k: Tensor, length: int) -> None:
        """Puts the rows, in their new order, into the other buffer, which has room for ``length`` steps."""
        batch, heads, _, dim = k.shape
        target = self.spare
        if target is None or target.size(1) < batch or target.size(3) < length:
            target = k.new_empty(2, batch, heads, max(ROOM, 2 * length), dim)
        if self.buffer is not None:
            past, destination = self.buffer[:, :, :, : self.length], target[:, :batch, :, : self.length]
            if self.order is None:
                destination.copy_(past[:, :batch])
            else:
                torch.index_select(past, 1, self.order, out=destination)
        self.buffer, self.spare, self.order, self.tails = target, self.buffer, None, None
