"""The products of a decoding step, whose few rows meet every weight of the decoder."""

from typing import Any, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BLOCK = 128  # columns

ROWS = 32
"""The rows that oneDNN expects; other numbers work as well."""

_operators: Any = torch.ops.mkldnn


def can_pack(weight: Tensor) -> bool:
    """Whether oneDNN can lay out this weight: on a CPU that computes in its precision, fp32 or bf16."""
    if weight.device.type != "cpu" or not torch.backends.mkldnn.is_available():
        return False
    if not all(hasattr(_operators, name) for name in ("_reorder_linear_weight", "_linear_pointwise")):
        return False
    if weight.dtype == torch.bfloat16:
        return bool(getattr(_operators, "_is_mkldnn_bf16_supported", bool)())
    return weight.dtype == torch.float


class Product:
    """``x @ weight^T + bias``, with a copy of the weight in oneDNN's own layout.

    Without the copy, every product on a CPU first brings the weight into such a layout. With the few rows of a step of
    decoding, this takes as long as the product itself. Sums are rounded in another order than in ``F.linear``. Where
    oneDNN is missing, this is ``F.linear``, and nothing is copied.

    Args:
        weight: ``(out, in)``; later changes do not arrive.
        bias: ``(out,)`` or None.
    """

    def __init__(self, weight: Tensor, bias: Optional[Tensor]) -> None:
        self.weight, self.bias = weight.detach(), None if bias is None else bias.detach()
        self.is_packed = can_pack(weight)
        if self.is_packed:
            self.weight = _operators._reorder_linear_weight(self.weight.contiguous(), ROWS)

    @classmethod
    def of(cls, *layers: nn.Linear) -> "Product":
        """The outputs of one or several layers of the same input, side by side."""
        if len(layers) == 1:
            return cls(layers[0].weight, layers[0].bias)
        biases = [layer.bias for layer in layers if layer.bias is not None]
        weight = torch.cat([layer.weight.detach() for layer in layers])
        return cls(weight, torch.cat([bias.detach() for bias in biases]) if biases else None)

    def __call__(self, x: Tensor) -> Tensor:
        """``(N, in)`` -> ``(N, out)``."""
        if not self.is_packed:
            return F.linear(x, self.weight, self.bias)
        out: Tensor = _operators._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return out


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
