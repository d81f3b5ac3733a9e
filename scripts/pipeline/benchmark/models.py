"""Builds models, tasks and configurations as fairseq's own command-line tools do, but with data in memory."""

import argparse
from typing import Any, Dict

import torch
from fairseq.data import Dictionary
from fairseq.dataclass.initialize import add_defaults
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.tasks import TASK_REGISTRY
from torch import nn

from ..command import as_failure


def configure(args: argparse.Namespace) -> Any:
    """The configuration that a tool of fairseq makes of its options."""
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
    with as_failure():
        return task.build_model(cfg.model)


def same_parameters(model: nn.Module, other: nn.Module) -> None:
    """Copies the parameters that ``model`` shares with ``other`` by name and shape."""
    own, others = dict(model.named_parameters()), dict(other.named_parameters())
    with torch.no_grad():
        for name in set(own) & set(others):
            if own[name].shape == others[name].shape:
                own[name].copy_(others[name])


def flops(model: nn.Module) -> Dict[str, float]:
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
