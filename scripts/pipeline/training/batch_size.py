"""Chooses ``--max-tokens`` and ``--update-freq`` so that an update sees a number of target tokens on any devices.

::

    batch.py BIN --source en --target de --target-tokens 25000 --devices 8 --device-tokens 4096

fairseq fills a batch until its longer side, with padding, has ``--max-tokens``; how many target tokens that are depends
on the text. Here it is counted, with fairseq's own batches. Prints the two numbers, and on stderr what they come to.
"""

import argparse
import logging
import sys
from pathlib import Path
from typing import Tuple

import numpy as np

logging.disable(logging.INFO)  # what fairseq says when it is imported
from fairseq.data import Dictionary, LanguagePairDataset, data_utils  # noqa: E402

MULTIPLE = 8
"""Sentences of a batch: fairseq-train's default of ``--required-batch-size-multiple``."""

TOLERANCE = 0.1


class BatchError(ValueError):
    """What is asked for cannot be had; the message is one line."""


def load(folder: Path, source: str, target: str) -> LanguagePairDataset:
    """The binarised training set."""
    dictionary = Dictionary.load(str(folder / f"dict.{target}.txt"))
    sides = []
    for lang in (source, target):
        side = data_utils.load_indexed_dataset(str(folder / f"train.{source}-{target}.{lang}"), dictionary)
        if side is None:
            raise BatchError(f"{folder}: has no binarised training set: run scripts/prepare.sh")
        sides.append(side)
    (src, tgt) = sides
    return LanguagePairDataset(src, src.sizes, dictionary, tgt, tgt.sizes, dictionary)


def mean_target_tokens(data: LanguagePairDataset, indices: np.ndarray, max_tokens: int) -> float:
    """Target tokens, with </s> and without padding, of a mean batch of fairseq's."""
    return float(data.tgt_sizes.sum()) / len(
        data.batch_by_size(indices, max_tokens=max_tokens, required_batch_size_multiple=MULTIPLE)
    )


def choose(data: LanguagePairDataset, target_tokens: int, devices: int, device_tokens: int) -> Tuple[int, int, float]:
    """``--max-tokens``, ``--update-freq`` and the target tokens that a mean update has with them.

    Args:
        target_tokens: wanted for each update.
        devices: that work at the same time.
        device_tokens: limit of ``--max-tokens``, for the memory of a device.

    Raises:
        BatchError: one batch on each device is more than asked for, or a sentence is longer than the limit.
    """
    if min(target_tokens, devices, device_tokens) < 1:
        raise BatchError("--target-tokens, --devices and --device-tokens must be at least 1")
    longest = int(max(data.src_sizes.max(), data.tgt_sizes.max()))
    if longest > device_tokens:
        raise BatchError(f"a sentence has {longest} tokens, but --device-tokens is {device_tokens}: raise it")
    with data_utils.numpy_seed(1):
        indices = data.ordered_indices()
    frequency = -(-target_tokens // (devices * device_tokens))
    while True:
        wanted = target_tokens / (devices * frequency)
        tried, max_tokens = {}, round(wanted)
        for _ in range(5):  # nearly proportional, in steps of MULTIPLE sentences
            max_tokens = max(longest, max_tokens)
            mean = mean_target_tokens(data, indices, max_tokens)
            tried[abs(mean / wanted - 1)] = max_tokens, mean
            max_tokens = round(max_tokens * wanted / mean)
        difference = min(tried)
        max_tokens, mean = tried[difference]
        if max_tokens <= device_tokens:
            tokens = mean * devices * frequency
            if difference > TOLERANCE:
                raise BatchError(
                    f"{tokens:,.0f} target tokens per update come nearest to {target_tokens:,}: ask for more"
                )
            return max_tokens, frequency, tokens
        frequency += 1


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="binarised data")
    parser.add_argument("--source", required=True, help="source language")
    parser.add_argument("--target", required=True, help="target language")
    parser.add_argument("--target-tokens", type=int, required=True, help="of an update")
    parser.add_argument("--devices", type=int, default=1, help="that work at the same time (default: 1)")
    parser.add_argument("--device-tokens", type=int, default=4096, help="padded, of one batch (default: 4096)")
    args = parser.parse_args()
    try:
        data = load(args.folder, args.source, args.target)
        max_tokens, frequency, tokens = choose(data, args.target_tokens, args.devices, args.device_tokens)
    except (BatchError, OSError) as error:
        sys.exit(f"error: {error}")
    print(
        f"{tokens:,.0f} target tokens per update ({args.target_tokens:,} wanted): devices {args.devices} x update "
        f"frequency {frequency} x batches of at most {max_tokens:,} padded tokens",
        file=sys.stderr,
    )
    print(max_tokens, frequency)


if __name__ == "__main__":
    main()
