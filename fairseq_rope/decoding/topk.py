"""The largest of many numbers."""

from typing import Tuple

import torch
from torch import Tensor

BLOCK = 128  # columns


def largest(x: Tensor, count: int) -> Tuple[Tensor, Tensor]:
    """``x.topk(count)``, on a CPU by way of the maximum of each block of columns, which is three times as fast.

    The ``count`` blocks with the largest maxima have the ``count`` largest numbers in them. Equal numbers may come in
    another order than from ``topk``.

    Args:
        x: ``(N, V)``.

    Returns:
        Values and columns, largest first, both ``(N, count)``.
    """
    width = x.size(1)
    blocks = width // BLOCK
    if x.device.type != "cpu" or blocks < 2 * count:
        return tuple(x.topk(count))  # type: ignore[return-value]
    whole = blocks * BLOCK
    maxima = x[:, :whole].unflatten(1, (blocks, BLOCK)).amax(dim=-1)
    if whole < width:
        maxima = torch.cat([maxima, x[:, whole:].amax(dim=-1, keepdim=True)], dim=1)
    columns = (maxima.topk(count)[1][..., None] * BLOCK + torch.arange(BLOCK)).flatten(1)  # (N, count * BLOCK)
    candidates = x.gather(1, columns.clamp(max=width - 1)).masked_fill_(columns >= width, -torch.inf)
    values, places = candidates.topk(count)
    return values, columns.gather(1, places)
