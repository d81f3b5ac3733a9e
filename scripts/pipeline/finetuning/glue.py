"""The small tasks of GLUE: their files, labels and metrics. It needs no fairseq.

The files are those that GLUE distributes, ``TASK/train.tsv`` and ``TASK/dev.tsv``, plain or with ``.gz``. The labels of
its test sets are not public, so results are on ``dev``, as in the papers.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Sequence, Tuple

from ..corpus.text import CorpusError, raw_file

SPLITS = {"train": "train", "valid": "dev"}
"""fairseq's name of a set, to GLUE's."""


class Example(NamedTuple):
    """A line of a task."""

    sentences: Tuple[str, ...]
    label: str


@dataclass(frozen=True)
class GlueTask:
    """A task: to classify one sentence or two, or to give them a number."""

    name: str
    columns: Tuple[str, ...]
    sentences: Tuple[str, ...]
    """The columns of the sentences."""
    label: str
    """The column of the label."""
    metrics: Tuple[str, ...]
    """Keys of the metrics in JSON files; the first one chooses the learning rate."""
    labels: Tuple[str, ...] = ("0", "1")
    """The classes, the last one being positive; none: labels are numbers."""
    header: bool = True
    """Whether the first line of a file has the names of the columns."""

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
        return Example(sentences, label)

    def read(self, folder: Path) -> Dict[str, List[Example]]:
        """The examples of each set, by fairseq's name.

        Raises:
            CorpusError: a file is missing, empty or broken.
        """
        sets = {}
        for split, name in SPLITS.items():
            path = find(folder / self.name / f"{name}.tsv")
            sets[split] = list(self.examples(path))
            if not sets[split]:
                raise CorpusError(f"{path}: no examples: copy it again")
        return sets


def find(path: Path) -> Path:
    """The file, or the same with ``.gz``."""
    for found in (path, path.with_name(f"{path.name}.gz")):
        if found.is_file():
            return found
    raise CorpusError(f"{path} not found (nor with .gz): give the folder with the tasks of GLUE as --data")


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


PAIR = ("sentence1", "sentence2")
STRINGS = ("#1 String", "#2 String")
STSB = ("index", "genre", "filename", "year", "old_index", "source1", "source2", *PAIR, "score")
RTE = ("not_entailment", "entailment")
GLUE: Dict[str, GlueTask] = {
    task.name: task
    for task in (
        GlueTask("CoLA", ("source", "label", "mark", "sentence"), ("sentence",), "label", ("matthews",), header=False),
        GlueTask("MRPC", ("Quality", "#1 ID", "#2 ID", *STRINGS), STRINGS, "Quality", ("f1", "accuracy")),
        GlueTask("RTE", ("index", *PAIR, "label"), PAIR, "label", ("accuracy",), RTE),
        GlueTask("SST-2", ("sentence", "label"), ("sentence",), "label", ("accuracy",)),
        GlueTask("STS-B", STSB, PAIR, "score", ("pearson", "spearman"), labels=()),
    )
}
