"""Reads the options of fairseq-train as fairseq does, before anything is written."""

import argparse
import sys
from typing import NoReturn, Sequence

import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_REGISTRY

from fairseq_rope.architectures import ARCHITECTURES, match_architectures
from fairseq_rope.kinds import KINDS

from ..command import Failure, as_failure
from ..settings import flags_in


def parse(flags: Sequence[str]) -> argparse.Namespace:
    """The options of fairseq-train in these flags, one of which is ``--arch``."""

    def refuse(message: str) -> NoReturn:
        what = " ".join(message.split())
        raise Failure(f"fairseq-train: {what}: correct the flags of the recipe, or what follows --")

    given = flags_in(flags)
    arch, task = " ".join(given["--arch"]), " ".join(given.get("--task", ["translation"]))
    with as_failure():
        if match_architectures([arch]) != [arch]:
            raise Failure(f"--arch must be one architecture, not '{arch}'")
    models = [kind.base for kind in KINDS.values() if issubclass(TASK_REGISTRY.get(task, object), kind.tasks)]
    # flags of the other kind would be refused without saying why
    if not issubclass(ARCH_MODEL_REGISTRY[arch], tuple(models) or object):
        raise Failure(f"the task {task} cannot train {arch}, which is another kind of model: choose another")
    words, sys.argv = sys.argv, sys.argv[:1]  # fairseq looks there for --user-dir
    try:
        parser = options.get_training_parser()
        parser.error = refuse
        args = options.parse_args_and_arch(parser, ["DATA", *flags])
    except ValueError as error:
        refuse(str(error))
    finally:
        sys.argv = words
    if args.arch in ARCHITECTURES:
        try:
            _build(args)
        except ValueError as error:
            raise Failure(f"fairseq-train: {' '.join(str(error).split())}") from None
        except Exception:  # of fairseq's parts, some of which need the dictionary or memory: the training says more
            pass
    return args


def _build(args: argparse.Namespace) -> None:
    """Builds the model for an empty dictionary and without memory; raises ValueError if it refuses an option."""
    task = argparse.Namespace(args=args, cfg=args, max_positions=lambda: args.tokens_per_sample)
    task.source_dictionary = task.target_dictionary = Dictionary()
    with torch.device("meta"):
        ARCH_MODEL_REGISTRY[args.arch].build_model(argparse.Namespace(**vars(args)), task)
