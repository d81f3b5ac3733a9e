"""Checks the strings in a checkpoint's configuration that fairseq runs as Python: only literals pass.

``weights_only=True`` keeps a checkpoint's pickle from running code. But fairseq passes some options of the
configuration to ``eval``, so a string in a foreign checkpoint can be a program.
"""

import argparse
import ast
import re
from typing import Any, Iterator, Tuple

from omegaconf import Container, OmegaConf

EVALUATED = {
    *("adaptive_input_cutoff", "adaptive_softmax_cutoff"),
    *("adafactor_eps", "adam_betas", "adamax_betas", "lamb_betas"),
    *("pipeline_balance", "pipeline_encoder_balance", "pipeline_decoder_balance"),
    *("pipeline_devices", "pipeline_encoder_devices", "pipeline_decoder_devices"),
    *("encoder_layers", "decoder_layers", "character_filters", "feature_encoder_spec"),
    *("conv_feature_layers", "conv_aggregator_layers", "wer_args"),
    *("encoder_attention", "decoder_attention", "self_attention", "project_input"),
    *("gated_attention", "downsample", "pretrained", "left_pad_source", "left_pad_target"),
    # the first is that of one side, inside ``encoder`` or ``decoder``
    *("xformers_att_config", "encoder_xformers_att_config", "decoder_xformers_att_config"),
}
"""Every option that fairseq 0.12 evaluates."""

RESOLVER = re.compile(r"\$\{(?![^{}:$]*\})")
"""A string that OmegaConf would evaluate, such as ``${oc.env:HOME}`` or ``${${name}:HOME}``: all but the plain name of
another option. fairseq saves resolved configurations."""

_LITERAL = (ast.Expression, ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.UnaryOp, ast.USub, ast.Load)
_COMPUTED = (ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.Div)  # convolutional models have "[(512, 3)] * 20"


def check_evaluated(*configurations: Any) -> None:
    """Checks all options that fairseq evaluates, wherever they are in a configuration.

    Args:
        configurations: dictionaries, namespaces or OmegaConf's containers, nested in any way, or None.

    Raises:
        ValueError: such an option is a string but no literal, or OmegaConf would evaluate a string.
    """
    for name, value in _options(configurations):
        is_program = isinstance(value, (str, bytes)) and name in EVALUATED and not _is_literal(value)
        if is_program or (isinstance(value, str) and RESOLVER.search(value)):
            raise ValueError(
                f"refused: its option {name} is {_shortened(value)}, which would be run as a program; use a checkpoint "
                "from a source that you trust"
            )


def _options(value: Any) -> Iterator[Tuple[str, Any]]:
    """All options with their names, on all levels; visits an object that contains itself only once."""
    left, visited = [("", value)], set()
    while left:
        name, value = left.pop()
        if isinstance(value, Container):
            value = OmegaConf.to_container(value)
        if isinstance(value, argparse.Namespace):
            value = vars(value)
        if isinstance(value, (dict, list, tuple)):
            if id(value) not in visited:
                visited.add(id(value))
                left += value.items() if isinstance(value, dict) else [(f"{name}[]", element) for element in value]
        else:
            yield str(name), value


def _is_literal(value: Any) -> bool:
    """Whether ``eval`` would only read ``value``: literals, and sums and products of them."""
    try:
        return all(isinstance(node, _LITERAL + _COMPUTED) for node in ast.walk(ast.parse(value, mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # Python cannot read the text
        return False


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
