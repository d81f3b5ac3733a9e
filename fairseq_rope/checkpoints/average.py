"""Averages the parameters of several checkpoints of one run (Vaswani et al. 2017, section 6.1: the last five)."""

import os
import re
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from torch import Tensor
from tqdm import tqdm

from ..loading import configuration_in
from ..options import Encodings, changes, encodings_of
from .files import CheckpointError, check_finite, load_checkpoint

NUMBERED_BY = {"updates": re.compile(r"checkpoint_\d+_(\d+)\.pt"), "epochs": re.compile(r"checkpoint(\d+)\.pt")}
"""The two ways in which fairseq-train numbers checkpoints, to a pattern of their names; its group is the number."""


def find_checkpoints(folder: Path, last: int, by: str = "updates", upper: Optional[int] = None) -> List[Path]:
    """The last checkpoints of a run, oldest first.

    Args:
        folder: the folder that ``--save-dir`` named.
        last: how many to find.
        by: ``updates`` (``checkpoint_<epoch>_<updates>.pt``) or ``epochs`` (``checkpoint<epoch>.pt``).
        upper: ignore checkpoints of more updates or epochs than this.

    Raises:
        CheckpointError: there is no such folder, or it has fewer than ``last`` checkpoints.
    """
    if not folder.is_dir():
        raise CheckpointError(f"{folder}: no such folder")
    numbered = []
    for path in folder.iterdir():
        match = NUMBERED_BY[by].fullmatch(path.name)
        if match and (upper is None or int(match[1]) <= upper):
            numbered.append((int(match[1]), path))
    if len(numbered) < last:
        bound = "" if upper is None else f" up to {upper}"
        remedy = f"give --last {len(numbered)}" if numbered else "name the --save-dir of its training, or --by"
        raise CheckpointError(
            f"{folder}: {len(numbered)} checkpoints by {by}{bound}, but {last} are to be averaged: {remedy}"
        )
    return [path for _, path in sorted(numbered)[-last:]]


def average_checkpoints(paths: Sequence[Path]) -> Dict[str, Any]:
    """The mean of the parameters, in a checkpoint that loads like the last of ``paths``.

    Sums are in fp32, and the result has the stored precision. The optimizer's state would not fit, and is left out.
    Integer entries and everything else come from the last checkpoint. The entry ``averaged_from`` names the files.

    Raises:
        CheckpointError: a path comes twice, a file cannot be used, names or shapes differ, or a number is not finite.
    """
    files = [os.path.realpath(path) for path in paths]
    if twice := [path for path, file in zip(paths, files) if files.count(file) > 1]:
        raise CheckpointError(f"{twice[0]} is named twice: name each checkpoint once")
    sums: Dict[str, Tensor] = {}
    state: Dict[str, Any] = {}
    encodings: Encodings = {}
    dictionaries: Any = None
    for path in tqdm(paths, desc="average", unit=" checkpoints", disable=None):
        state = load_checkpoint(path)
        model = state["model"]
        check_finite(model, path)
        if sums and model.keys() != sums.keys():
            name = sorted(model.keys() ^ sums.keys())[0]
            where = "has no" if name in sums else "alone has"
            raise CheckpointError(f"{path}: {where} parameter {name}: average checkpoints of one model only")
        cfg = configuration_in(state)
        encodings = encodings or encodings_of(cfg)
        if changed := changes(encodings, encodings_of(cfg)):
            raise CheckpointError(f"{path}: {changed}: average checkpoints of one model only")
        words = cfg.get("dictionaries") if isinstance(cfg, dict) else getattr(cfg, "dictionaries", None)
        dictionaries = dictionaries or words
        if words and words != dictionaries:
            raise CheckpointError(f"{path}: has other dictionaries: average checkpoints of one model only")
        for name, value in model.items():
            if name in sums and sums[name].shape != value.shape:
                shapes = f"{tuple(value.shape)} instead of {tuple(sums[name].shape)}"
                raise CheckpointError(f"{path}: parameter {name} has shape {shapes}")
            if value.is_floating_point():
                sums[name] = sums[name] + value.float() if name in sums else value.float()
            else:
                sums[name] = value
    model = state["model"]
    state["model"] = {
        name: (total / len(paths)).to(model[name].dtype) if total.is_floating_point() else total
        for name, total in sums.items()
    }
    state.pop("last_optimizer_state", None)
    state["averaged_from"] = [path.name for path in paths]
    return state
