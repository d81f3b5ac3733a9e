"""Builds models, tasks and configurations as fairseq's own command-line tools do, but with data in memory."""

import argparse
from typing import Any, Dict, NoReturn, Sequence

import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.dataclass.initialize import add_defaults
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY
from torch import nn

import fairseq_rope  # noqa: F401  (registers the architectures)

from ..command import Failure

STOCK = "transformer_wmt_en_de"
"""fairseq's own transformer of base size, the model of the candidate ``stock``."""

Flops = Dict[str, float]


def check_arch(arch: str) -> None:
    """Raises Failure if ``arch`` is not registered."""
    if arch not in ARCH_MODEL_REGISTRY:
        raise Failure(f"unknown architecture '{arch}': `fairseq-rope info` lists this plugin's")


def configure(parser: argparse.ArgumentParser, flags: Sequence[str], bf16: bool = False) -> Any:
    """The configuration that a tool of fairseq makes of its flags.

    Raises:
        Failure: fairseq's parser refuses a flag.
    """

    def refuse(message: str) -> NoReturn:
        raise Failure(f"fairseq refuses the flags: {message}")

    parser.error = refuse  # type: ignore[method-assign]
    args = options.parse_args_and_arch(parser, ["no-data", *flags, *(["--bf16"] if bf16 else [])])
    args.tpu = False  # fairseq-train takes --bf16 for a TPU
    cfg = convert_namespace_to_omegaconf(args)
    add_defaults(cfg)
    return cfg


def make_task(cfg: Any, words: Dictionary) -> Any:
    """The task of a configuration, with this dictionary on all its sides."""
    task = TASK_REGISTRY[cfg.task._name]
    return task(cfg.task, words) if cfg.task._name == "masked_lm" else task(cfg.task, words, words)


def build_model(task: Any, cfg: Any) -> Any:
    """The model of a configuration, with fairseq's initial parameters.

    Raises:
        Failure: the options do not fit together.
    """
    try:
        return task.build_model(cfg.model)
    except ValueError as error:
        raise Failure(str(error)) from None


def same_parameters(model: nn.Module, other: nn.Module) -> bool:
    """Copies the parameters that ``model`` and ``other`` share to ``model``; True if they share all of them.

    Computed position tables are not parameters, so models with different encodings can share all of them.
    """
    own, others = dict(model.named_parameters()), dict(other.named_parameters())
    common = [name for name in own if name in others and own[name].shape == others[name].shape]
    with torch.no_grad():
        for name in common:
            own[name].copy_(others[name])
    return len(common) == len(own) == len(others)


def flops(model: nn.Module) -> Flops:
    """Floating-point operations of a forward pass, in matrix products with parameters, for each token by its side.

    Two for each weight of the encoder and of the keys and values of the attention to it, for a ``source`` token; two
    for each of the rest of the decoder and of the vocabulary's projection, for a ``target`` token; likewise for the
    head of a masked model, or for its head of classification if it has one. What attention and position encodings
    multiply besides is not counted.
    """
    counts = {"source": 0.0, "target": 0.0}
    classifies = bool(getattr(model, "classification_heads", None))
    for name, module in model.named_modules():
        is_head = name.startswith("encoder.lm_head")
        if is_head and classifies:
            continue
        if (isinstance(module, nn.Linear) and "position" not in name.split(".")) or name == "encoder.lm_head":
            of_source = name.startswith("encoder.") and not is_head
            of_source |= name.endswith(("encoder_attn.k_proj", "encoder_attn.v_proj"))
            counts["source" if of_source else "target"] += 2.0 * module.weight.numel()
    return counts
