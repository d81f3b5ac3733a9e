"""Packed batches: the tokens of all sentences in one row, without the padding between them.

Everything in a layer but the attention between the projections treats each token alone. So padding costs nothing there
if it is left out.
"""

from typing import Optional

from torch import Tensor

SPARED = 1 / 4
"""The part of a batch that has to be padding before packing pays."""


def places(padding: Tensor) -> Optional[Tensor]:
    """Where the tokens of a batch are, or None if less than :data:`SPARED` of it is padding.

    Args:
        padding: ``(B, T)``, True = padding.

    Returns:
        ``(N,)``, int64: the places of the tokens among the B x T of the batch, sentence by sentence.
    """
    tokens = padding.numel() - int(padding.sum())
    if tokens > (1 - SPARED) * padding.numel():
        return None
    return padding.flatten().byte().argsort(stable=True)[:tokens]  # unlike nonzero(), it waits for no device


def pack(x: Tensor, packed: Tensor) -> Tensor:
    """Leaves the padding out.

    Args:
        x: ``(T, B, C)``.
        packed: the result of :func:`places`.

    Returns:
        ``(N, 1, C)``.
    """
    return x.transpose(0, 1).flatten(0, 1).index_select(0, packed)[:, None]


def unpack(x: Tensor, packed: Tensor, padding: Tensor) -> Tensor:
    """The inverse of :func:`pack`, with zeros for the padding.

    Args:
        x: ``(N, 1, C)``.
        packed: the result of :func:`places`.
        padding: ``(B, T)``.

    Returns:
        ``(T, B, C)``.
    """
    empty = x.new_zeros(padding.numel(), x.size(-1))
    return empty.index_copy(0, packed, x[:, 0]).unflatten(0, padding.shape).transpose(0, 1)
