"""Gives a trained model a dictionary with further types at its end: its embeddings and its output grow.

New rows are drawn as in a new training, and their biases are 0: rows that were the mean of the old ones learned more
slowly. ``prepare.sh --add-tokens`` makes such dictionaries.
"""

from pathlib import Path
from typing import Any, Dict, Sequence

import torch
from torch import Tensor

from ..kinds import KINDS
from ..loading import TABLE, digest
from ..masked_lm import INITIAL_STD
from .configuration import changed, model_configuration
from .fairseq_transformer import kind_of_arch
from .files import CheckpointError
from .model_folder import read_dictionary

OUTPUTS = ("output_projection.weight", "output_projection.bias", "lm_head.weight", "lm_head.bias")
"""The ends of the names of parameters with a row for each type that a model predicts."""

MASK = "<mask>"


def grow(state: Dict[str, Any], paths: Sequence[Path], seed: int = 1) -> Dict[str, Any]:
    """A copy of a checkpoint for larger dictionaries, without the optimizer's state and moving averages.

    Args:
        state: of a model of this plugin.
        paths: the dictionary of both sides, or those of source and target.

    Raises:
        CheckpointError: a dictionary cannot be read, or is not the old one with further types at its end.
    """
    cfg = model_configuration(state)
    kind = kind_of_arch(cfg.arch)
    if kind is None:
        raise CheckpointError(f"{cfg.arch} is not an architecture of this plugin: convert it with --to plugin first")
    if getattr(cfg, "adaptive_softmax_cutoff", None):
        raise CheckpointError(f"--adaptive-softmax-cutoff {cfg.adaptive_softmax_cutoff}: such an output cannot grow")
    model, digests = dict(state["model"]), dict(getattr(cfg, "dictionaries", None) or {})
    for side, path in zip(kind.sides, [paths[0], paths[-1]]):
        dictionary = read_dictionary(path, "give a dictionary of fairseq")
        tables = [name for name in model if name.startswith(side) and name.endswith((TABLE, *OUTPUTS))]
        old = len(model[next(name for name in tables if name.endswith(TABLE))])
        symbols = dictionary.symbols
        is_masked = kind is KINDS["masked"]
        adds_mask = is_masked and MASK not in symbols
        if adds_mask:  # as its task does, at the end
            dictionary.add_symbol(MASK)
            before = [*symbols[: old - 1], MASK]
        else:
            before = symbols[:old]
        known = digests.get(side)
        if len(symbols) < old or (known and digest(before) != known):
            raise CheckpointError(
                f"{path} is not the {side}'s dictionary ({known or f'{old} types'}) with more at its end"
            )
        for name in tables:
            if len(model[name]) != old:
                raise CheckpointError(f"{name} has {len(model[name])} rows, and the dictionary had {old} types")
            std = INITIAL_STD if is_masked else model[name].size(-1) ** -0.5
            model[name] = _with_rows(model[name], len(symbols), old - adds_mask, std, seed)
        digests[side] = digest(symbols)
    cfg.dictionaries = digests
    return changed(state, cfg, model)


def _with_rows(table: Tensor, rows: int, at: int, std: float, seed: int) -> Tensor:
    """``table`` with new rows from ``at`` on; equal tables, which a model may share, stay equal."""
    new = torch.zeros(rows - len(table), *table.shape[1:])
    if table.dim() > 1:
        new.normal_(std=std, generator=torch.Generator().manual_seed(seed))
    return torch.cat([table[:at], new.type_as(table), table[at:]])
