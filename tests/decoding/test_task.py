"""The task ``fast_translation``: which sentences its batches hold."""

import itertools

import pytest
from fairseq.tasks.translation import TranslationTask

from fairseq_rope.decoding.task import FastTranslationConfig, FastTranslationTask

from ..commands import fairseq, hypotheses, run

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
