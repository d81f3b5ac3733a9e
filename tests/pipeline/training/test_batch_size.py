"""The size of an update: as many target tokens as asked for, on any number of devices."""

import numpy as np
import pytest
import torch
from fairseq import tasks
from fairseq.data import Dictionary, data_utils

from pipeline.command import Failure
from pipeline.training.batch_size import choose, load

from ...model_folders import binarise


def binarised(folder, subset, source, target):
    """A binarised set of pairs with these lengths."""
    dictionary = Dictionary()
    dictionary.add_symbol("w", 5)
    for lang, lengths in (("en", source), ("de", target)):
        binarise(folder / f"{subset}.en-de.{lang}", (torch.full((int(n),), 4) for n in lengths), dictionary)
        dictionary.save(str(folder / f"dict.{lang}.txt"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A binarised training set of 6,000 pairs of 3 to 60 tokens, the target about as long as the source."""
    folder, numbers = tmp_path_factory.mktemp("bin"), np.random.default_rng(1)
    source = numbers.integers(3, 60, 6000)
    binarised(folder, "train", source, np.maximum(2, source + numbers.integers(-9, 9, 6000)))
    return folder


@pytest.mark.parametrize(("devices", "device_tokens"), [(1, 4096), (3, 2000), (8, 4096)])
def test_an_update_has_the_target_tokens_that_were_asked_for(folder, devices, device_tokens):
    data = load(folder, "en", "de")
    max_tokens, frequency, tokens = choose(data, 25000, devices, device_tokens)
    assert max_tokens <= device_tokens and abs(tokens / 25000 - 1) < 0.03
    with data_utils.numpy_seed(1):
        room = data.tgt_sizes.sum() / len(
            data.batch_by_size(data.ordered_indices(), max_tokens=device_tokens, required_batch_size_multiple=8)
        )
    assert room * devices * (frequency - 1) < 1.01 * 25000  # fewer batches would not have had room
    # as fairseq's own iterator counts them
    limits = tasks.translation.TranslationConfig(max_source_positions=1024, max_target_positions=1024)
    task = tasks.translation.TranslationTask(limits, data.src_dict, data.tgt_dict)
    batches = task.get_batch_iterator(data, max_tokens=max_tokens, required_batch_size_multiple=8).frozen_batches
    assert float(np.mean([data.tgt_sizes[b].sum() for b in batches])) * devices * frequency == pytest.approx(tokens)


def test_what_cannot_be_had_is_said_in_one_line(folder):
    data = load(folder, "en", "de")
    with pytest.raises(Failure, match=r"a sentence has \d+ tokens, but --device-tokens is 50: raise it"):
        choose(data, 25000, 1, 50)
    with pytest.raises(Failure, match=r"target tokens per update come nearest to 100: ask for more"):
        choose(data, 100, 8, 4096)
