"""Training in several processes, as ``torchrun`` starts them.

fairseq looks at torchrun's environment only where it sees several GPUs itself. On CPUs, and on machines with one GPU
each, it would train as many independent copies, without a word.
"""

import os
import sys
from typing import Any, Container, Mapping, Sequence

import torch

NEEDED = ("RANK", "MASTER_ADDR", "MASTER_PORT")
OTHER_LAUNCHERS = {"SLURM_STEP_NUM_TASKS": "srun", "OMPI_COMM_WORLD_SIZE": "mpirun"}
"""What says how many processes a launcher started that fairseq does not know on CPUs."""


def join_processes(args: Any, environ: Mapping[str, str] = os.environ) -> None:
    """Makes ``fairseq-train`` one of the processes that were started together: over gloo on CPUs, NCCL on GPUs.

    Args:
        args: what ``fairseq-train`` parsed; changed in place. Left alone if it names ``--distributed-init-method``.
        environ: ``WORLD_SIZE``, ``RANK``, ``MASTER_ADDR`` and ``MASTER_PORT``, as torchrun sets them.

    Raises:
        ValueError: several processes were started in a way that would make each train on its own.
    """
    if not hasattr(args, "distributed_init_method") or args.distributed_init_method is not None:
        return
    on_cpu = getattr(args, "cpu", False) or not torch.cuda.is_available()
    world_size = int(environ.get("WORLD_SIZE", 1))
    if world_size == 1:
        for variable, launcher in OTHER_LAUNCHERS.items():
            if on_cpu and int(environ.get(variable, 1)) > 1:
                raise ValueError(
                    f"{launcher} started {environ[variable]} processes ({variable}), which would each train a model of "
                    "its own on CPUs: start them with torchrun"
                )
        return
    missing = [name for name in NEEDED if name not in environ]
    if missing:
        raise ValueError(f"WORLD_SIZE is {world_size} but {missing[0]} is not set: start the processes with torchrun")
    args.distributed_world_size = world_size
    if on_cpu:
        args.distributed_init_method = "env://"
        args.distributed_rank = int(environ["RANK"])
        args.distributed_no_spawn = True
        args.distributed_backend = "gloo"
        if args.ddp_backend == "pytorch_ddp":  # fairseq hands it a device, which it refuses on CPUs
            args.ddp_backend = "legacy_ddp"


def refuse_others(
    known: Container[str], argv: Sequence[str] = sys.argv, environ: Mapping[str, str] = os.environ
) -> None:
    """Stops torchrun's processes from training an architecture that :func:`join_processes` does not see.

    Args:
        known: this project's architectures.
        argv: the command line.

    Raises:
        ValueError: several processes, no more than one GPU here, and an ``--arch`` of somebody else.
    """
    words = [part for word in argv for part in word.split("=", 1)]
    arch = next((words[i + 1] for i, word in enumerate(words[:-1]) if word in ("--arch", "-a")), None)
    alone = torch.cuda.device_count() <= 1 and "--distributed-init-method" not in words
    if arch is not None and arch not in known and alone and int(environ.get("WORLD_SIZE", 1)) > 1:
        raise ValueError(
            f"{environ['WORLD_SIZE']} processes would each train a {arch} of its own: name --distributed-init-method "
            "and --distributed-rank, or take an architecture of `python -m fairseq_rope`"
        )
