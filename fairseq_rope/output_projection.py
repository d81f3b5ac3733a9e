"""The output projection of a transformer as one matrix, if the logits are just the product with it."""

from typing import Optional

from torch import Tensor, nn


def output_weight(model: nn.Module) -> Optional[Tensor]:
    """The weight of the output projection, if the logits are ``features @ weight^T`` and nothing else.

    Args:
        model: any of fairseq's models.

    Returns:
        ``(V, C)``; or None if the model has no such projection: no decoder, another kind of output layer, a bias, an
        adaptive softmax. Also None while FSDP holds the weight in pieces.
    """
    decoder = getattr(model, "decoder", None)
    projection = getattr(decoder, "output_projection", None)
    if type(projection) is not nn.Linear or projection.bias is not None:
        return None
    if getattr(decoder, "adaptive_softmax", None) is not None:
        return None
    return projection.weight if projection.weight.dim() == 2 else None
