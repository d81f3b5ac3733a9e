"""Chooses ``--max-tokens`` and ``--update-freq`` so that an update sees a number of target tokens on any devices.

fairseq fills a batch until its longer side, with padding, has ``--max-tokens``. The number of target tokens in it
depends on the text, so this module counts them in fairseq's own batches.
"""

from pathlib import Path
from typing import List, Tuple

from fairseq.data import LanguagePairDataset, data_utils

from fairseq_rope.checkpoints.model_folder import read_dictionary

from ..command import Failure, as_failure, say

TOLERANCE = 0.1

MULTIPLE = 8
"""The size of a batch is a multiple of this: fairseq-train's default of ``--required-batch-size-multiple``."""


def load(folder: Path, source: str, target: str, subset: str = "train") -> LanguagePairDataset:
    """A binarised set."""
    with as_failure():
        dictionary = read_dictionary(folder / f"dict.{target}.txt", "run scripts/prepare.sh again")
    sides = []
    for lang in (source, target):
        side = data_utils.load_indexed_dataset(str(folder / f"{subset}.{source}-{target}.{lang}"), dictionary)
        if side is None:
            raise Failure(f"{folder}: has no binarised set '{subset}': run scripts/prepare.sh")
        sides.append(side)
    (src, tgt) = sides
    return LanguagePairDataset(src, src.sizes, dictionary, tgt, tgt.sizes, dictionary)


def choose(
    data: LanguagePairDataset, target_tokens: int, devices: int, device_tokens: int, multiple: int = MULTIPLE
) -> Tuple[int, int, float]:
    """Chooses ``--max-tokens`` and ``--update-freq``; also returns the target tokens of an update, on average.

    Args:
        target_tokens: target tokens wanted for each update.
        devices: number of devices that work at the same time.
        device_tokens: limit of ``--max-tokens``, by the memory of a device.
        multiple: the size of a batch is a multiple of this number of sentences.
    """
    longest = int(max(data.src_sizes.max(), data.tgt_sizes.max()))
    if longest > device_tokens:
        raise Failure(f"a sentence has {longest} tokens, but --device-tokens is {device_tokens}: raise it")
    with data_utils.numpy_seed(1):
        indices = data.ordered_indices()
    frequency = -(-target_tokens // (devices * device_tokens))
    while True:
        wanted = target_tokens / (devices * frequency)
        tried, max_tokens = {}, round(wanted)
        for _ in range(5):  # nearly proportional, in steps of ``multiple`` sentences
            max_tokens = max(longest, max_tokens)
            batches = data.batch_by_size(indices, max_tokens=max_tokens, required_batch_size_multiple=multiple)
            mean = float(data.tgt_sizes.sum()) / len(batches)  # with </s>, without padding
            tried[abs(mean / wanted - 1)] = max_tokens, mean
            max_tokens = round(max_tokens * wanted / mean)
        difference = min(tried)
        max_tokens, mean = tried[difference]
        if max_tokens <= device_tokens:
            tokens = mean * devices * frequency
            if difference > TOLERANCE:
                raise Failure(f"{tokens:,.0f} target tokens per update come nearest to {target_tokens:,}: ask for more")
            return max_tokens, frequency, tokens
        frequency += 1


def choose_flags(
    folder: Path, languages: Tuple[str, str], target_tokens: int, devices: int, device_tokens: int, multiple: int
) -> List[str]:
    """What :func:`choose` finds for the binarised data in ``folder``, as flags; tells the user."""
    data = load(folder, *languages)
    max_tokens, frequency, tokens = choose(data, target_tokens, devices, device_tokens, multiple)
    say(
        f"{tokens:,.0f} target tokens per update ({target_tokens:,} wanted): devices {devices} x update "
        f"frequency {frequency} x batches of at most {max_tokens:,} padded tokens"
    )
    return ["--max-tokens", str(max_tokens), "--update-freq", str(frequency)]
