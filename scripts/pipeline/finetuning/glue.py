"""The small tasks of GLUE: their files, labels and metrics. It needs no fairseq.

The files are those that GLUE distributes, ``TASK/train.tsv`` and ``TASK/dev.tsv``, plain or with ``.gz``. The labels of
its test sets are not public, so results are on ``dev``, as in the papers.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, List, Sequence, Tuple

from ..corpus.text import CorpusError, raw_file
from .base import Example, FineTuningTask, Sets, find

SPLITS = {"train": "train", "valid": "dev"}
"""fairseq's name of a set, to GLUE's."""


@dataclass(frozen=True)
class GlueTask(FineTuningTask):
    """A task with one sentence or two."""

    columns: Tuple[str, ...] = ()
    sentences: Tuple[str, ...] = ()
    """The columns of the sentences."""
    label: str = "label"
    """The column of the label."""
    header: bool = True
    """Whether the first line of a file has the names of the columns."""
    largest: float = 1.0
    """By what numbers are divided: TUPE learns those of STS-B as 0 to 1."""

    @property
    def settings(self) -> str:
        return self.name if self.largest == 1 else f"{self.name} numbers / {self.largest:g}"

    def examples(self, path: Path) -> Iterator[Example]:
        """The lines of a file.

        Raises:
            CorpusError: a line is broken; the message names it.
        """
        lines = enumerate(raw_file(path), 1)
        if self.header:
            _, names = next(lines, (1, ""))
            if tuple(names.lstrip("\ufeff").rstrip("\r").split("\t")) != self.columns:
                raise CorpusError(f"{path}, line 1: not the header of {self.name}: it has {' '.join(self.columns)}")
        for number, line in lines:
            yield self._example(line.rstrip("\r").split("\t"), f"{path}, line {number}")

    def _example(self, fields: Sequence[str], place: str) -> Example:
        if len(fields) != len(self.columns):
            raise CorpusError(f"{place}: {len(fields)} fields, and {self.name} has {len(self.columns)}: copy it again")
        row = dict(zip(self.columns, fields))
        label = row[self.label].strip()
        if self.labels and label not in self.labels:
            raise CorpusError(f"{place}: label {label[:40]!a}, and {self.name} has {' and '.join(self.labels)}")
        if not self.labels and not _is_number(label):
            raise CorpusError(f"{place}: label {label[:40]!a}, and {self.name} has numbers")
        sentences = tuple(row[column].strip() for column in self.sentences)
        if not all(sentences):
            raise CorpusError(f"{place}: a sentence is empty: copy it again")
        return Example(sentences, label if self.largest == 1 else f"{float(label) / self.largest:.6g}")

    def files(self, folder: Path) -> List[Path]:
        return [find(folder / self.name / f"{name}.tsv") for name in SPLITS.values()]

    def read(self, folder: Path) -> Sets:
        sets = {}
        for split, path in zip(SPLITS, self.files(folder)):
            sets[split] = list(self.examples(path))
            if not sets[split]:
                raise CorpusError(f"{path}: no examples: copy it again")
        return sets


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


PAIR = ("sentence1", "sentence2")
STRINGS = ("#1 String", "#2 String")
STSB = ("index", "genre", "filename", "year", "old_index", "source1", "source2", *PAIR, "score")
CLASSES = ("not_entailment", "entailment")


def _task(name: str, columns: Tuple[str, ...], sentences: Tuple[str, ...], *metrics: str, **more: Any) -> GlueTask:
    return GlueTask(name, metrics, len(sentences), columns=columns, sentences=sentences, **more)


TASKS = [
    _task("CoLA", ("source", "label", "mark", "sentence"), ("sentence",), "matthews", header=False),
    _task("MRPC", ("Quality", "#1 ID", "#2 ID", *STRINGS), STRINGS, "f1", "accuracy", label="Quality"),
    _task("RTE", ("index", *PAIR, "label"), PAIR, "accuracy", labels=CLASSES),
    _task("SST-2", ("sentence", "label"), ("sentence",), "accuracy"),
    _task("STS-B", STSB, PAIR, "pearson", "spearman", labels=(), label="score", largest=5.0),
]
