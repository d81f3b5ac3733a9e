"""The task ``fast_translation``: the sentences of its batches, the search that it builds, what its commands print."""

import argparse
import itertools

import pytest
import torch
from fairseq import search
from fairseq.sequence_generator import SequenceGeneratorWithAlignment
from fairseq.sequence_scorer import SequenceScorer
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_rope.decoding.generator import FastSequenceGenerator
from fairseq_rope.decoding.task import FastTranslationConfig, FastTranslationTask

from ..helpers import task
from .searching import lively


def batches(kind, data, split, combine):
    """The sentences of each batch, as fairseq's commands ask for them by default."""
    options = dict(source_lang="en", target_lang="de", train_subset="train", dataset_impl=None)
    task = kind.setup_task(FastTranslationConfig(data=str(data / "bin"), required_seq_len_multiple=1, **options))
    task.load_dataset(split, combine=combine, epoch=1)
    made = task.get_batch_iterator(task.dataset(split), max_tokens=900, required_batch_size_multiple=8, epoch=1)
    return [list(batch) for batch in made.batch_sampler]


def test_every_sentence_is_validated_and_translated(data):
    for split, size in (("valid", 21), ("test", 21), ("train", 400)):
        found = sorted(itertools.chain.from_iterable(batches(FastTranslationTask, data, split, combine=False)))
        assert found == list(range(size))


def test_training_has_fairseqs_own_batches(data):
    """Their sizes are multiples of 8; results of earlier versions count as the same runs."""
    fast, stock = (batches(kind, data, "train", combine=True) for kind in (FastTranslationTask, TranslationTask))
    assert fast == stock and {len(batch) % 8 for batch in fast} == {0}


def build_generator(model, separator="", **args):
    words = task().target_dictionary
    that = FastTranslationTask(TranslationConfig(), words, words)
    that.separator = separator
    return that.build_generator([model], argparse.Namespace(**args))


def test_the_task_builds_the_search_that_the_arguments_name():
    model = lively()
    assert type(build_generator(model)) is FastSequenceGenerator
    assert type(build_generator(model, print_alignment="hard")) is SequenceGeneratorWithAlignment
    assert type(build_generator(model, score_reference=True)) is SequenceScorer
    sampling = build_generator(model, sampling=True)
    assert type(sampling.search) is search.Sampling and not sampling._is_plain()


def test_weights_in_bf16_are_those_of_a_translation_and_never_of_a_training():
    words, model = task().target_dictionary, lively()
    cfg = FastTranslationConfig(bf16_weights=True, eval_bleu=True)
    with pytest.raises(ValueError, match="--bf16-weights cannot be combined with --eval-bleu"):
        FastTranslationTask(cfg, words, words).build_generator([model], argparse.Namespace())
    cfg.eval_bleu = False
    FastTranslationTask(cfg, words, words).build_generator([model], argparse.Namespace())
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
