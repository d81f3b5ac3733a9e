"""Keys and values of earlier decoding steps, in buffers with room for the next ones."""

from typing import Dict, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

ROOM = 32  # steps

IncrementalState = Dict[str, Dict[str, Optional[Tensor]]]
"""The tensors that fairseq's modules keep from one step of decoding to the next, under a name for each module."""


class KeyValueCache:
    """The keys and values of all steps so far; a new step is written behind them, without a copy of the others.

    There are two buffers. When beams change places, :meth:`append` copies the rows from one buffer to the other in
    their new order, together with the next step. Both are kept, because fresh memory costs more than the copy. The
    result of :meth:`append` is valid until the next call.
    """

    def __init__(self) -> None:
        self.buffer: Optional[Tensor] = None  # (2, B, H, room, D): keys, and values, which may be narrower
        self.spare: Optional[Tensor] = None
        self.order: Optional[Tensor] = None  # the order in which to take the rows next
        self.length = 0

    def reorder(self, order: Tensor) -> None:
        """Row ``i`` continues the former row ``order[i]``; ``order`` may be longer or shorter than the batch."""
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
            self.buffer, self.spare, self.order = new, None, None
        else:
            if self.buffer is None or self.order is not None or self.buffer.size(3) < length:
                self._move(k, length)
            assert self.buffer is not None
            self.buffer[0, :batch, :, past_length:length] = k
            self.buffer[1, :batch, :, past_length:length, :width] = v
        self.length = length
        return self.buffer[0, :batch, :, :length], self.buffer[1, :batch, :, :length, :width]

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
        self.buffer, self.spare, self.order = target, self.buffer, None
