"""Encodes a task with the subwords and the dictionary of a pretrained model, as fairseq's task reads it."""

from pathlib import Path
from typing import Sequence

from ..corpus.binarize import binarize_shard
from ..corpus.shards import find_shards
from ..files import copy, replacing_folder, write_text
from ..prepared import read_prepared
from ..processing.kinds import text_processing
from .base import FineTuningTask, Sets

DICTIONARY = "dict.txt"


def encode(task: FineTuningTask, sets: Sets, run: Path, out: Path) -> None:
    """Replaces the folder ``out`` by ``input0``, ``input1`` and so on and ``label``, as fairseq's task names them.

    Args:
        sets: the examples of each set, by fairseq's name.
        run: the model folder of the pretrained model.

    Raises:
        Failure: a file of the model folder is missing or damaged.
    """
    remedy = f"run scripts/average.sh --run {run} again"
    prepared = read_prepared(run, remedy)
    processing = text_processing(run, prepared, prepared.source, prepared.target)
    processing.load(remedy)
    with replacing_folder(out) as folder:
        for number in range(task.inputs):
            copy(run / DICTIONARY, folder / f"input{number}" / DICTIONARY)
            for split, examples in sets.items():
                lines = processing.split([example.sentences[number] for example in examples])
                _binarize(lines, folder / f"input{number}", split)
        classes = task.labels and task.fairseq == "sentence_prediction"
        if classes:
            write_text(folder / "label" / DICTIONARY, "".join(f"{label} 1\n" for label in task.labels))
        for split, examples in sets.items():
            labels = [example.label for example in examples]
            if classes:
                _binarize(labels, folder / "label", split)
            else:
                _write_lines(folder / "label" / f"{split}.label", labels)


def _binarize(lines: Sequence[str], folder: Path, split: str) -> None:
    """Writes lines of tokens as ``SPLIT.bin`` and ``SPLIT.idx``, with the dictionary in the folder."""
    text = folder / f"{split}.txt"
    _write_lines(text, lines)
    (shard,) = find_shards(text, len(lines))
    binarize_shard(text, shard, folder / split, folder / DICTIONARY)
    text.unlink()


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    write_text(path, "".join(f"{line}\n" for line in lines))
