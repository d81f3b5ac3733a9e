"""A training that goes on in a later epoch has the batches of one that was not interrupted."""

import numpy as np
import pytest
import torch
from fairseq.data import (
    Dictionary,
    LanguagePairDataset,
    ListDataset,
    MaskTokensDataset,
    NestedDictionaryDataset,
    RightPadDataset,
)
from fairseq.data.iterators import EpochBatchIterator
from fairseq.tasks import FairseqTask
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_rope.fairseq_patches import resumption

SENTENCES = 300


@pytest.fixture
def dataset():
    """Pairs of few different lengths, so that many could change places."""
    dictionary = Dictionary()
    dictionary.add_symbol("w")
    lengths = np.random.default_rng(1).integers(3, 6, SENTENCES)
    side = [torch.full((int(length),), 4) for length in lengths]
    return LanguagePairDataset(side, lengths, dictionary, side, lengths, dictionary)


def batches(dataset, epoch, get_batch_iterator=TranslationTask.get_batch_iterator, **options):
    task = TranslationTask(TranslationConfig(), dataset.src_dict, dataset.tgt_dict)
    iterator = get_batch_iterator(task, dataset, max_tokens=60, seed=1, epoch=epoch, **options)
    return [list(batch) for batch in iterator.frozen_batches]


def test_the_batches_of_a_later_epoch_are_those_of_the_first(dataset):
    assert batches(dataset, epoch=1) == batches(dataset, epoch=3)


def test_batches_that_are_made_anew_in_each_epoch_are_fairseqs(dataset):
    stock = FairseqTask.get_batch_iterator.__wrapped__
    found, expected = (batches(dataset, 3, *way, update_epoch_batch_itr=True) for way in ((), (stock,)))
    assert found == expected


def test_another_size_of_batches_goes_on_at_the_same_share_of_the_epoch(dataset):
    task = TranslationTask(TranslationConfig(), dataset.src_dict, dataset.tgt_dict)

    def iterator(max_tokens):
        return FairseqTask.get_batch_iterator(task, dataset, max_tokens=max_tokens, seed=1, disable_iterator_cache=True)

    few, many = iterator(120), iterator(30)
    epoch = few.next_epoch_itr()
    for _ in range(len(few) // 3):
        next(epoch)
    seen = few.iterations_in_epoch / len(few)
    many.load_state_dict(few.state_dict())
    assert many.iterations_in_epoch / len(many) == pytest.approx(seen, abs=1 / len(many)) and len(many) > 2 * len(few)
    again = iterator(120)
    again.load_state_dict(few.state_dict())
    assert again.iterations_in_epoch == few.iterations_in_epoch
    for _ in range(len(few) - few.iterations_in_epoch - 1):
        next(epoch)
    fewer = iterator(1000)
    fewer.load_state_dict(few.state_dict())  # rounded, it would be at the end
    assert fewer.iterations_in_epoch == len(fewer) - 1


def test_a_sampler_of_each_epoch_makes_those_of_the_epoch_that_goes_on():
    data = ListDataset(torch.arange(8), [1] * 8)
    iterator = EpochBatchIterator(data, list, lambda dataset, epoch: [[epoch, i] for i in range(8)])
    place = {"version": 2, "epoch": 3, "iterations_in_epoch": 0, "shuffle": True, resumption.BATCHES: 8}
    iterator.load_state_dict(place)
    assert iterator.frozen_batches[0] == [3, 0]


def masked(epoch, workers=1, place=0):
    """The iterator of a masked training that begins in this epoch, behind so many of its two batches."""
    dictionary = Dictionary()
    words = [dictionary.add_symbol(f"w{i}") for i in range(50)]
    mask = dictionary.add_symbol("<mask>")
    texts = ListDataset([torch.tensor(words)] * 4, [len(words)] * 4)
    _, target = MaskTokensDataset.apply_mask(texts, dictionary, dictionary.pad(), mask, seed=1)
    padded = RightPadDataset(target, pad_idx=dictionary.pad())
    dataset = NestedDictionaryDataset({"target": padded}, sizes=[np.array(texts.sizes)])
    options = dict(max_sentences=2, seed=1, num_workers=workers, epoch=epoch)
    iterator = MaskedLMTask(MaskedLMConfig(), dictionary).get_batch_iterator(dataset, **options)
    iterator.load_state_dict({"version": 2, "epoch": epoch, "iterations_in_epoch": place, "shuffle": False})
    return iterator


def masks(iterator):
    return [batch["target"].tolist() for batch in iterator.next_epoch_itr(shuffle=False)]


def test_each_epoch_masks_other_tokens_and_a_continued_training_those_of_its_epoch():
    iterator = masked(epoch=1)
    first, second, third = masks(iterator), masks(iterator), masks(iterator)
    assert first != second and first != third and second != third
    assert masks(masked(epoch=3)) == third == masks(masked(epoch=3, workers=0)) and len(third) == 2
    assert masks(masked(epoch=3, place=1)) == third[1:]
