"""A training with alignments has a loss that learns them, and data that have them: fairseq would train without."""

import os
from pathlib import Path
from typing import Any

from fairseq.criterions import CRITERION_REGISTRY
from fairseq.criterions.label_smoothed_cross_entropy_with_alignment import (
    LabelSmoothedCrossEntropyCriterionWithAlignment,
)

FLAG, CRITERION = "--load-alignments", "label_smoothed_cross_entropy_with_alignment"
KNOWN = ("fairseq", __name__.split(".")[0])
"""Packages whose other criteria do not learn alignments; users' own may."""


def check_alignments(cfg: Any) -> None:
    """Checks a training with fairseq's whole configuration ``cfg``.

    Raises:
        ValueError: the flag, the criterion or the data are missing; the message says which.
    """
    if cfg.criterion is None:  # the caller has made one
        return
    name, loads = cfg.criterion._name, getattr(cfg.task, "load_alignments", False)
    criterion = CRITERION_REGISTRY[name]
    learns = issubclass(criterion, LabelSmoothedCrossEntropyCriterionWithAlignment)
    if loads and not learns and criterion.__module__.split(".")[0] in KNOWN:
        raise ValueError(f"--criterion {name} does not learn alignments: give {CRITERION}, or leave {FLAG} out")
    if learns and not loads:
        raise ValueError(f"--criterion {name} has no alignments to learn: give {FLAG}, or another criterion")
    if loads:
        folder, subset = Path(cfg.task.data.split(os.pathsep)[0]), cfg.dataset.train_subset
        if not any(folder.glob(f"{subset}.align.*")):
            raise ValueError(f"{folder} has no {subset}.align.*: make it with `fairseq-preprocess --align-suffix`")
