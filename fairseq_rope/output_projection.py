"""The output projection of a transformer as one matrix, if the logits are just the product with it."""

import functools
import logging
from typing import Any, List, Optional

from fairseq.models.transformer import TransformerDecoderBase
from torch import Tensor, nn

PROBABILITIES = ("get_normalized_probs", "get_normalized_probs_scriptable")
"""Methods of models and decoders between logits and probabilities."""


@functools.cache
def tell_once(what: str) -> None:
    """Tells the log that fairseq's own code does ``what``, because ours does not know something about the model."""
    logging.getLogger(__name__).info(f"fairseq's own {what}: the faster one does not serve this model or these options")


def is_intercepted(*modules: nn.Module) -> bool:
    """Whether somebody listens to the calls of one of these modules, and may change their inputs or outputs, or has put
    a method of his own into one."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    if any(getattr(nn.modules.module, f"_global{name}") for name in hooks):
        return True
    return any(
        any(getattr(module, name) for name in hooks) or not is_unchanged(module, *_own_methods(module))
        for module in modules
    )


def _own_methods(module: nn.Module) -> List[str]:
    """Those that an instance has in place of its class's; :mod:`.products` gives such ones to linear layers."""
    own = {name: value for name, value in vars(module).items() if callable(value)}
    replaced = {name: getattr(type(module), name) for name in own if callable(getattr(type(module), name, None))}
    # pickle makes the class's own method one of the instance
    return [name for name, stock in replaced.items() if getattr(own[name], "__func__", None) is not stock]


def is_unchanged(instance: Any, *methods: str) -> bool:
    """Whether these methods are fairseq's or this plugin's, and not missing, or of a user's subclass or wrapper."""
    ours = ("fairseq", __name__.split(".")[0])
    return all(_package(getattr(instance, method, None)) in ours for method in methods)


def _package(method: Any) -> str:
    """Where the code of a method is: ``__module__`` would be that of the function inside a wrapper."""
    method = getattr(method, "func", method)  # fairseq's activation checkpointing is a partial function
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
    if type(projection) is not nn.Linear or projection.bias is not None or is_intercepted(decoder, projection):
        return None
    output_layer = getattr(getattr(decoder, "output_layer", None), "__func__", None)
    if output_layer is not TransformerDecoderBase.output_layer or decoder.adaptive_softmax is not None:
        return None
    if not is_unchanged(model, *PROBABILITIES) or not is_unchanged(decoder, "forward", *PROBABILITIES):
        return None
    return projection.weight if projection.weight.dim() == 2 else None
