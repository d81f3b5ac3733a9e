"""What every training checks and sets at its beginning, by flags or by a configuration in YAML, and when it goes on."""

import os
from argparse import Namespace
from typing import Any, Callable

import torch
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer
from torch import distributed

from ..options import check_precision
from .alignments import check_alignments
from .distributed import check_joined

KEPT = {"ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64", "LRU_CACHE_CAPACITY": "64"}
"""How many compiled products oneDNN and PyTorch keep, one for each shape: 0.6 MB in bf16. A step has 27 to 42.

Both read the environment at the first product. By default each keeps 1,024: the batches of a training have ever new
shapes, so these are of no use, and a model that needs 1 GB grew to 8.
"""


def begins(stock: Callable[..., None]) -> Callable[..., None]:
    """Makes a trainer whose configuration fits together.

    Its process keeps few compiled products, unless its environment says how many. On a CPU, ``--fp16`` keeps the fp32
    parameters apart: fairseq puts them into one tensor for each CUDA device. Each of several processes reads the
    checkpoint that a training continues from: fairseq would read it in the first one and send it to the others, where
    PyTorch's safe loading refuses fairseq's own classes.
    """

    def __init__(self: Trainer, cfg: Any, *args: Any, **kwargs: Any) -> None:
        if isinstance(cfg, Namespace):
            cfg = convert_namespace_to_omegaconf(cfg)
        check_precision(cfg.common)
        check_joined(cfg)
        check_alignments(cfg)
        for name, number in KEPT.items():
            os.environ.setdefault(name, number)
        if cfg.common.cpu or not torch.cuda.is_available():
            cfg.common.fp16_no_flatten_grads |= cfg.common.fp16
        cfg.checkpoint.load_checkpoint_on_all_dp_ranks |= cfg.distributed_training.distributed_world_size > 1
        stock(self, cfg, *args, **kwargs)

    return __init__


def goes_on(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Reads a checkpoint that all processes have. Where a model refuses parameters, its reason is the error; fairseq
    puts the architecture in its place."""

    def load_checkpoint(self: Trainer, filename: str, *args: Any, **options: Any) -> Any:
        if distributed.is_initialized():  # else those without it would begin a model of their own
            found = [""] * distributed.get_world_size()
            distributed.all_gather_object(found, f"{os.path.isfile(filename)} {args} {options}")
            if len(set(found)) > 1:
                raise ValueError(f"{filename}: some processes see it, others do not: give a folder that all can read")
        try:
            return stock(self, filename, *args, **options)
        except Exception as error:
            if type(error) is Exception and isinstance(error.__context__, ValueError):
                raise error.__context__ from None
            raise

    return load_checkpoint
