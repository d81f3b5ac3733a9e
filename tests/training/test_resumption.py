"""A training that goes on in a later epoch has the batches of one that was not interrupted."""

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary, LanguagePairDataset
from fairseq.tasks import FairseqTask
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_rope.training import resumption

SENTENCES = 300


@pytest.fixture
def dataset():
    """Pairs of few different lengths, so that many could change places."""
    dictionary = Dictionary()
    dictionary.add_symbol("w")
    lengths = np.random.default_rng(1).integers(3, 6, SENTENCES)
    side = [torch.full((int(length),), 4) for length in lengths]
    return LanguagePairDataset(side, lengths, dictionary, side, lengths, dictionary)


def batches(dataset, epoch, **options):
    task = TranslationTask(TranslationConfig(), dataset.src_dict, dataset.tgt_dict)
    iterator = task.get_batch_iterator(dataset, max_tokens=60, seed=1, epoch=epoch, **options)
    return [list(batch) for batch in iterator.frozen_batches]


def test_the_batches_of_a_later_epoch_are_those_of_the_first(dataset):
    assert batches(dataset, epoch=1) == batches(dataset, epoch=3)


def test_batches_that_are_made_anew_in_each_epoch_are_fairseqs(dataset):
    stock = FairseqTask.get_batch_iterator.__wrapped__
    task = TranslationTask(TranslationConfig(), dataset.src_dict, dataset.tgt_dict)
    options = dict(max_tokens=60, seed=1, epoch=3, update_epoch_batch_itr=True)
    expected = [list(batch) for batch in stock(task, dataset, **options).frozen_batches]
    assert batches(dataset, epoch=3, update_epoch_batch_itr=True) == expected


def test_it_is_installed_once():
    before = FairseqTask.get_batch_iterator
    resumption.install()
    assert FairseqTask.get_batch_iterator is before
