"""Training in several processes, as ``torchrun`` starts them.

fairseq reads torchrun's environment only where it sees several GPUs. On CPUs, and on machines with one GPU each, it
would silently train independent copies.
"""

import os
from typing import Any, Callable, Mapping, Optional

import torch

NEEDED = ("RANK", "MASTER_ADDR", "MASTER_PORT")
PYTORCH = ("pytorch_ddp", "c10d")
"""fairseq's two names for PyTorch's own backend."""

OTHER_LAUNCHERS = {"SLURM_STEP_NUM_TASKS": "srun", "OMPI_COMM_WORLD_SIZE": "mpirun"}
"""Variables with the number of processes, for launchers that fairseq does not support on CPUs."""


def joins_processes(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Lets every training of this process join the processes that were started together, whatever the architecture.

    All of fairseq's commands start their work through ``call_main``. fairseq has no hook at this place. Its earlier
    calls (presets, a model's ``add_args``) are for one architecture and happen for other reasons too. Its later calls
    (tasks, criteria, optimizers) come after the decision between one process and several. ``infer_init_method``, which
    decides, does not see ``--cpu``.

    The official fairseq takes a single process of torchrun for a distributed training too, over NCCL.
    """

    def call_main(cfg: Any, main: Callable[..., Any], **kwargs: Any) -> None:
        join_processes(cfg)
        is_alone = os.environ.get("WORLD_SIZE") == "1" and all(name in os.environ for name in NEEDED)
        if is_alone and cfg.distributed_training.distributed_init_method is None:
            del os.environ["MASTER_ADDR"]  # by which fairseq knows torchrun
            _replace(cfg, distributed_world_size=1)  # not one process for each GPU
        stock(cfg, main, **kwargs)

    return call_main


def join_processes(cfg: Any, environ: Optional[Mapping[str, str]] = None) -> None:
    """Makes a training one of the processes that were started together, over gloo on CPUs and NCCL on GPUs.

    Args:
        cfg: fairseq's whole configuration; changed in place. It stays as it is if it names
            ``--distributed-init-method``, or has no optimizer: validation and translation are left to fairseq.
        environ: ``WORLD_SIZE``, ``RANK``, ``MASTER_ADDR`` and ``MASTER_PORT``, as torchrun sets them; by default those
            of this process.

    Raises:
        ValueError: several processes were started in such a way that each would train on its own.
    """
    environ = os.environ if environ is None else environ
    if cfg.optimizer is None or cfg.distributed_training.distributed_init_method is not None:
        return
    on_cpu = cfg.common.cpu or not torch.cuda.is_available()
    world_size = int(environ.get("WORLD_SIZE", 1))
    if world_size == 1:
        if on_cpu and "WORLD_SIZE" not in environ:
            _refuse_other_launchers(environ)
        return
    missing = [name for name in NEEDED if name not in environ]
    if missing and not on_cpu and "SLURM_JOB_ID" in environ and cfg.distributed_training.distributed_world_size > 1:
        return  # where it sees several GPUs, fairseq takes SLURM's own variables
    if missing:
        raise ValueError(f"WORLD_SIZE is {world_size} but {missing[0]} is not set: start the processes with torchrun")
    _replace(cfg, distributed_world_size=world_size)
    if on_cpu:
        _replace(
            cfg,
            distributed_init_method="env://",
            distributed_rank=int(environ["RANK"]),
            distributed_no_spawn=True,
            distributed_backend="gloo",
        )
        if cfg.distributed_training.ddp_backend in PYTORCH:  # fairseq gives it a device, which it refuses on CPUs
            _replace(cfg, ddp_backend="legacy_ddp")


def check_joined(cfg: Any) -> None:
    """Raises ValueError if this process is one of several that would each train a model of its own."""
    if cfg.distributed_training.distributed_world_size > 1:
        return
    if "WORLD_SIZE" not in os.environ and (cfg.common.cpu or not torch.cuda.is_available()):
        _refuse_other_launchers(os.environ)
    count = int(os.environ.get("WORLD_SIZE", 1))
    if count > 1 and all(name in os.environ for name in NEEDED):
        raise ValueError(f"each of the {count} processes would train a model of its own: start them with fairseq-train")


def _refuse_other_launchers(environ: Mapping[str, str]) -> None:
    """Raises ValueError if a launcher other than torchrun started several processes."""
    for variable, launcher in OTHER_LAUNCHERS.items():
        if int(environ.get(variable, 1)) > 1:
            raise ValueError(
                f"{launcher} started {environ[variable]} processes ({variable}), which would each train a model of "
                "its own on CPUs: start them with torchrun"
            )


def _replace(cfg: Any, **options: Any) -> None:
    """Sets options in the section ``distributed_training``, and their copies in other sections (BMUF, some losses)."""
    for section in (cfg[name] for name in cfg):
        for option, value in options.items():
            if hasattr(section, option):
                setattr(section, option, value)
