"""The output projection of a transformer as one matrix, if the logits are just the product with it."""

import functools
import logging
from typing import Optional

from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

from .interception import is_intercepted, is_unchanged

PROBABILITIES = ("get_normalized_probs", "get_normalized_probs_scriptable")
"""Methods of models and decoders between logits and probabilities."""


@functools.cache
def tell_once(what: str) -> None:
    """Tells the log that fairseq's own code does ``what``, because ours does not know something about the model."""
    logging.getLogger(__name__).info(f"fairseq's own {what}: the faster one does not serve this model or these options")


def output_weight(model: nn.Module) -> Optional[Tensor]:
    """The weight of the output projection, if the logits are ``features @ weight^T`` and nothing else.

    Args:
        model: any of fairseq's models.

    Returns:
        ``(V, C)``; or None if the model has no such projection: no decoder, another kind of output layer, a bias, an
        adaptive softmax, hooks, replaced methods, a subclass that changes logits or probabilities. Also None while FSDP
        holds the weight in pieces.
    """
    decoder = getattr(model, "decoder", None)
    projection = getattr(decoder, "output_projection", None)
    if type(projection) is not nn.Linear or projection.bias is not None or is_intercepted(decoder, projection):
        return None
    output_layer = getattr(getattr(decoder, "output_layer", None), "__func__", None)
    if output_layer is not TransformerDecoderBase.output_layer or decoder.adaptive_softmax is not None:
        return None
    if not is_unchanged(model, *PROBABILITIES) or not is_unchanged(decoder, "forward", *PROBABILITIES):
        return None
    return projection.weight if projection.weight.dim() == 2 else None
