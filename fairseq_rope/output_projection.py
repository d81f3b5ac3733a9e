"""The output projection of a transformer as one matrix, if the logits are just the product with it."""

import functools
import logging
from typing import Any, Optional

from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

PROBABILITIES = ("get_normalized_probs", "get_normalized_probs_scriptable")
"""Methods of models and decoders between logits and probabilities."""


@functools.cache
def tell_once(what: str) -> None:
    """Tells the log that fairseq's own code does ``what``, because ours does not know something about the model."""
    logging.getLogger(__name__).info(f"fairseq's own {what}: the faster one does not serve this model or these options")


def has_hooks(*modules: nn.Module) -> bool:
    """Whether somebody listens to the calls of one of these modules, and may change their inputs or outputs."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, name) for module in modules for name in hooks)


def is_unchanged(instance: Any, *methods: str) -> bool:
    """Whether these methods are fairseq's or this plugin's, and not of a user's subclass or wrapper."""
    ours = ("fairseq", __name__.split(".")[0])
    return all(_package(getattr(instance, method)) in ours for method in methods)


def _package(method: Any) -> str:
    """Where the code of a method is: ``__module__`` would be that of the function inside a wrapper."""
    function = getattr(method, "__func__", method)
    return str(getattr(function, "__globals__", {}).get("__name__", "")).split(".")[0]


def output_weight(model: nn.Module) -> Optional[Tensor]:
    """The weight of the output projection, if the logits are ``features @ weight^T`` and nothing else.

    Args:
        model: any of fairseq's models.

    Returns:
        ``(V, C)``; or None if the model has no such projection: no decoder, another kind of output layer, a bias, an
        adaptive softmax, hooks, a subclass that changes logits or probabilities. Also None while FSDP holds the weight
        in pieces.
    """
    decoder = getattr(model, "decoder", None)
    projection = getattr(decoder, "output_projection", None)
    if type(projection) is not nn.Linear or projection.bias is not None or has_hooks(decoder, projection):
        return None
    output_layer = getattr(getattr(decoder, "output_layer", None), "__func__", None)
    if output_layer is not TransformerDecoderBase.output_layer or decoder.adaptive_softmax is not None:
        return None
    if not is_unchanged(model, *PROBABILITIES) or not is_unchanged(decoder, "forward", *PROBABILITIES):
        return None
    return projection.weight if projection.weight.dim() == 2 else None
