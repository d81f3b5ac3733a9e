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

from ..commands import TRAIN, fairseq, hypotheses, run
from ..helpers import task
from .searching import lively

SIZES = (1, 7, 8, 9, 300)


def batches(kind, data, split, combine):
    """The sentences of each batch, as fairseq's commands ask for them by default."""
    options = dict(source_lang="en", target_lang="de", train_subset="train", dataset_impl=None)
    task = kind.setup_task(FastTranslationConfig(data=str(data / "bin"), required_seq_len_multiple=1, **options))
    task.load_dataset(split, combine=combine, epoch=1)
    made = task.get_batch_iterator(task.dataset(split), max_tokens=900, required_batch_size_multiple=8, epoch=1)
    return [list(batch) for batch in made.batch_sampler]


@pytest.mark.parametrize("split", ["valid", "test", "train"])
def test_every_sentence_is_validated_and_translated(data, split):
    sizes = {"valid": 21, "test": 21, "train": 400}
    found = sorted(itertools.chain.from_iterable(batches(FastTranslationTask, data, split, combine=False)))
    assert found == list(range(sizes[split]))


def test_training_has_fairseqs_own_batches(data):
    """Their sizes are multiples of 8; results of earlier versions count as the same runs."""
    fast, stock = (batches(kind, data, "train", combine=True) for kind in (FastTranslationTask, TranslationTask))
    assert fast == stock and {len(batch) % 8 for batch in fast} == {0}


@pytest.mark.slow
def test_fairseq_generate_returns_a_translation_of_each_sentence(data, trained, tmp_path):
    for size, lang in itertools.product(SIZES, ("en", "de")):
        lines = (data / f"bpe/train.{lang}").read_text(encoding="utf-8").splitlines(keepends=True)
        (tmp_path / f"{size}.{lang}").write_text("".join(lines[:size]), encoding="utf-8")
    names = ",".join(str(tmp_path / str(size)) for size in SIZES)
    dictionaries = ["--srcdict", data / "bin/dict.en.txt", "--tgtdict", data / "bin/dict.de.txt"]
    made = ["--source-lang", "en", "--target-lang", "de", "--testpref", names, "--destdir", tmp_path / "bin"]
    run("fairseq-preprocess", *made, *dictionaries)
    search = ["--task", "fast_translation", "--path", trained / "checkpoint.pt", "--beam", 1, "--max-len-b", 5]
    for number, size in enumerate(SIZES):
        done = fairseq("generate", tmp_path, *search, "--gen-subset", f"test{number or ''}")
        assert set(hypotheses(done.stdout)) == {f"H-{i}" for i in range(size)}


def build_generator(model, **args):
    words = task().target_dictionary
    that = FastTranslationTask(TranslationConfig(), words, words)
    return that.build_generator([model], argparse.Namespace(**args))


def test_the_task_builds_the_search_that_the_arguments_name():
    model = lively()
    assert type(build_generator(model)) is FastSequenceGenerator
    assert type(build_generator(model, print_alignment="hard")) is SequenceGeneratorWithAlignment
    assert type(build_generator(model, score_reference=True)) is SequenceScorer
    sampling = build_generator(model, sampling=True)
    assert type(sampling.search) is search.Sampling and not sampling._is_plain()


def lines(output):
    """The hypotheses, their scores and the scores of their words, as printed."""
    return sorted(line for line in output.splitlines() if line[:2] in ("H-", "D-", "P-"))


@pytest.mark.parametrize(
    "options", [[], ["--beam", 1], ["--lenpen", 0.6, "--nbest", 3, "--fp16"], ["--unkpen", 2, "--sacrebleu"]]
)
@pytest.mark.slow
def test_generating_with_the_task_prints_what_translation_prints(data, trained, options):
    if "--fp16" in options and not torch.cuda.is_available():
        options = options[:-1]
    common = ["--path", trained / "checkpoint.pt", "--batch-size", 8, "--required-batch-size-multiple", 1]
    common += ["--max-len-b", 20, *options]
    fast, stock = (
        fairseq("generate", data, *common, "--task", name).stdout for name in ("fast_translation", "translation")
    )
    assert len(lines(stock)) >= 3 * 21
    for mine, other in zip(lines(fast), lines(stock)):
        (name, *numbers), (other_name, *others) = mine.split("\t"), other.split("\t")
        assert name == other_name
        if name.startswith("P-"):
            mine, other = ([float(x) for x in part[0].split()] for part in (numbers, others))
            assert mine == pytest.approx(other, abs=2e-4)  # printed with four digits
        else:
            assert numbers[1:] == others[1:] and float(numbers[0]) == pytest.approx(float(others[0]), abs=1e-5)


@pytest.mark.slow
def test_bleu_in_validation_equals_that_of_translation(data, tmp_path):
    bleu = ["--eval-bleu", "--eval-bleu-args", '{"beam": 3, "max_len_b": 9}', "--eval-bleu-detok", "space"]
    common = ["--arch", "roformer_tiny", *TRAIN, *bleu, "--max-update", 4, "--dropout", 0]
    common += ["--required-batch-size-multiple", 1]  # with another one, translation drops sentences
    logs = {}
    for name in ("fast_translation", "translation"):
        done = fairseq("train", data, "--task", name, *common, "--save-dir", tmp_path / name)
        log = (done.stderr + done.stdout).splitlines()
        logs[name] = [line.split('"valid_bleu": ')[1].split(",")[0] for line in log if '"valid_bleu"' in line]
    assert logs["fast_translation"] == logs["translation"] != []
