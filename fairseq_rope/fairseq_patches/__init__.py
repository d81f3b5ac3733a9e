"""Every place where the plugin changes what fairseq does, as one list, each with its reason and its test.

``train.sh`` changes three more in its own processes (``scripts/pipeline/training/worker.py``).
"""

import functools
from types import SimpleNamespace
from typing import Any, Callable, NamedTuple

import numpy as np
from fairseq import checkpoint_utils
from fairseq.data.iterators import EpochBatchIterator
from fairseq.distributed import utils as distributed_utils
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer

from . import amp, distributed, loading, resumption, trainer


class Patch(NamedTuple):
    """A function of fairseq and what takes its place."""

    owner: Any
    """The module or class whose attribute is replaced."""
    name: str
    replacement: Callable[[Any], Any]
    """fairseq's own attribute, or None where there is none, to the one that takes its place."""
    reason: str
    test: str
    """The file in ``tests`` that fails without the patch."""


PATCHES = (
    Patch(
        checkpoint_utils,
        "load_checkpoint_to_cpu",
        loading.checks_options,
        "fairseq evaluates some options of a checkpoint as Python, and takes one with another dictionary or encoding",
        "checkpoints/test_evaluated.py",
    ),
    Patch(
        distributed_utils,
        "call_main",
        distributed.joins_processes,
        "on CPUs, each process of torchrun would train a model of its own",
        "training/test_distributed.py",
    ),
    Patch(
        FairseqTask,
        "get_batch_iterator",
        resumption.batches_of_the_first_epoch,
        "a continued training would see other batches, and processes that load data would repeat an epoch's masks",
        "training/test_resumption.py",
    ),
    Patch(
        EpochBatchIterator,
        "state_dict",
        resumption.keeps_number_of_batches,
        "with another number of devices, a continued training would see some text twice or never",
        "training/test_resumption.py",
    ),
    Patch(
        EpochBatchIterator,
        "load_state_dict",
        resumption.scales_the_place,
        "as above; and the two libraries for products round differently",
        "training/test_resumption.py",
    ),
    Patch(
        FP16Optimizer,
        "state_dict",
        resumption.saves_fp32_parameters,
        "in half precision, a continued training would begin with rounded parameters",
        "training/test_updates.py",
    ),
    Patch(FP16Optimizer, "load_state_dict", resumption.loads_fp32_parameters, "as above", "training/test_updates.py"),
    Patch(
        Trainer,
        "load_checkpoint",
        trainer.goes_on,
        "fairseq blames the architecture, whatever the reason; processes without the checkpoint would begin anew",
        "test_loading.py",
    ),
    Patch(
        Trainer,
        "__init__",
        trainer.begins,
        "in bf16 on a CPU, a training would grow by gigabytes; one from YAML would miss checks of fairseq-train's",
        "training/test_memory.py",
    ),
    Patch(
        AMPOptimizer,
        "step",
        amp.steps_once,
        "gradients would be divided by the loss scale twice",
        "training/test_optimizer.py",
    ),
    Patch(
        np,
        "compat",
        lambda stock: stock or SimpleNamespace(long=int),
        "NumPy 2 lacks numpy.compat.long, which fairseq needs for --sample-break-mode eos",
        "test_language_models.py",
    ),
)

MARK = "_patched_by_fairseq_rope"


def install() -> None:
    """Puts every patch in place; a second call changes nothing."""
    for patch in PATCHES:
        stock: Any = getattr(patch.owner, patch.name, None)
        if hasattr(stock, MARK):  # also where others have wrapped ours
            continue
        replacement = patch.replacement(stock)
        if replacement is not stock:
            functools.update_wrapper(replacement, stock)
            setattr(replacement, MARK, True)
            setattr(patch.owner, patch.name, replacement)
