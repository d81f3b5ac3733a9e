"""Packed batches: the tokens of all sentences in one row, without the padding between them.

Everything in a layer but the attention between the projections treats each token alone, and needs no padding.
"""

from typing import Optional

from torch import Tensor

SPARED = 1 / 4
"""The part of a batch that has to be padding before packing pays."""


def places(padding: Tensor, pads: int) -> Optional[Tensor]:
    """Where the tokens of a batch are, or None if less than :data:`SPARED` of it is padding.

    Args:
        padding: ``(B, T)``, True = padding.
        pads: the sum of it.

    Returns:
        ``(N,)``, int64: the places of the tokens among the B x T of the batch, sentence by sentence.
    """
    if pads < SPARED * padding.numel():
        return None
    # unlike nonzero(), this does not wait for the device
    return padding.flatten().byte().argsort(stable=True)[: padding.numel() - pads]


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
