"""Reads the options of fairseq-train as fairseq does, and compares them with the data, before anything is written."""

import argparse
import sys
from pathlib import Path
from typing import NoReturn, Optional, Sequence, Tuple

import numpy as np
import torch
from fairseq import options
from fairseq.data import Dictionary
from fairseq.models import (
    ARCH_MODEL_REGISTRY,
    FairseqEncoderDecoderModel,
    FairseqEncoderModel,
    FairseqLanguageModel,
)

from fairseq_rope.architectures import ARCHITECTURES, match_architectures

from ..command import Failure, as_failure, last_value, say
from .batch_size import load

MODELS = {
    "translation": FairseqEncoderDecoderModel,
    "masked_lm": FairseqEncoderModel,
    "language_modeling": FairseqLanguageModel,
}
"""The kind of model that a task trains; with another one, fairseq-train fails at the first update."""


def check_arch(arch: str) -> None:
    """Raises Failure unless ``arch`` is one architecture."""
    with as_failure():
        known = match_architectures([arch])
    if known != [arch]:
        raise Failure(f"--arch must be one architecture, not '{arch}'")


def check_options(folder: Path, languages: Optional[Tuple[str, str]], flags: Sequence[str]) -> None:
    """Checks the flags of fairseq-train, from ``--arch`` on.

    Args:
        folder: the binarised data.
        languages: source and target; None for text, whose blocks have the length that the flags say.

    Raises:
        Failure: fairseq knows no such option or value, or sentences are too long for it.
    """
    args = parse(flags)
    if languages is None:
        return
    if args.max_tokens:
        _check_training(_longer_sides(folder, languages, "train"), args.max_tokens)
    if args.max_tokens_valid and not (args.disable_validation or args.skip_invalid_size_inputs_valid_test):
        longest = int(_longer_sides(folder, languages, "valid").max())
        if longest > args.max_tokens_valid:
            raise Failure(
                f"a sentence of the validation set has {longest} tokens, but a batch has {args.max_tokens_valid} at "
                f"most: give `-- --max-tokens-valid {longest}` or more"
            )


def _check_kind(task: Optional[str], arch: Optional[str]) -> None:
    """Raises Failure if the task trains another kind of model."""
    model = ARCH_MODEL_REGISTRY.get(arch)
    if model and not issubclass(model, MODELS.get(task or "", object)):
        raise Failure(f"the task {task} cannot train {arch}, which is another kind of model: choose another")


def parse(flags: Sequence[str]) -> argparse.Namespace:
    """The options of fairseq-train in these flags, one of which is ``--arch``.

    Raises:
        Failure: fairseq knows no such option or value, the task trains another kind of model, or the model refuses a
            value.
    """

    def refuse(message: str) -> NoReturn:
        what = " ".join(message.split())
        raise Failure(f"fairseq-train: {what}: correct the flags of the recipe, or what follows --")

    words, sys.argv = sys.argv, sys.argv[:1]  # fairseq looks there for --user-dir
    try:
        parser = options.get_training_parser()
    finally:
        sys.argv = words
    parser.error = refuse
    # flags of the other kind would be refused without saying why
    _check_kind(last_value(flags, "--task"), last_value(flags, "--arch"))
    try:
        args = options.parse_args_and_arch(parser, ["DATA", *flags])
    except ValueError as error:
        refuse(str(error))
    _check_kind(args.task, args.arch)
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


def _longer_sides(folder: Path, languages: Tuple[str, str], subset: str) -> np.ndarray:
    """The tokens on the longer side of each pair, ``</s>`` counted."""
    data = load(folder, *languages, subset)
    return np.maximum(data.src_sizes, data.tgt_sizes)


def _check_training(lengths: np.ndarray, max_tokens: int) -> None:
    """Says how many pairs fairseq-train leaves out; raises Failure if these are all."""
    left_out, shortest, longest = int((lengths > max_tokens).sum()), int(lengths.min()), int(lengths.max())
    if left_out == len(lengths):
        raise Failure(
            f"--max-tokens {max_tokens} is too small for every training pair: the longer sides have {shortest} to "
            f"{longest} tokens: give {longest} or more"
        )
    if left_out:
        say(
            f"fairseq-train leaves out {left_out:,} of {len(lengths):,} training pairs, which have up to {longest} "
            f"tokens on a side: --max-tokens is {max_tokens}"
        )
