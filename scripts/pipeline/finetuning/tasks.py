"""The tasks of fine-tuning: five of GLUE, and similar case matching. It needs no fairseq.

The files of GLUE are those that it distributes, ``TASK/train.tsv`` and ``TASK/dev.tsv``, plain or with ``.gz``. The
labels of its test sets are not public, so results are on ``dev``, as in the papers.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, Iterator, List, NamedTuple, Sequence, Tuple, TypedDict

from ..command import Failure
from ..corpus.documents import objects, share
from ..corpus.lines import find
from ..files import raw_lines
from ..scoring.metrics.labels import LABELS

REMEDY = "give the folder with the files of the tasks as --data"
"""What to do where a file is missing."""


class Example(NamedTuple):
    """The sentences of an example, and its class or number."""

    sentences: Tuple[str, ...]
    label: str


Sets = Dict[str, List[Example]]
"""The examples of each set, by fairseq's name: ``train`` and ``valid``."""


@dataclass(frozen=True)
class FineTuningTask:
    """A task: to classify sentences, to give them a number, or to choose among them."""

    name: str
    metrics: Tuple[str, ...]
    """Keys of :data:`..scoring.metrics.labels.LABELS`; the first one chooses the learning rate."""
    sentences: Tuple[str, ...]
    """The columns of an example's sentences."""
    label: str = "label"
    """The column of the label."""
    labels: Tuple[str, ...] = ("0", "1")
    """The classes, the last one being positive; none: labels are numbers."""
    columns: Tuple[str, ...] = ()
    """All columns of a file whose first line does not name them."""
    largest: float = 1.0
    """By what numbers are divided: TUPE learns those of STS-B as 0 to 1."""
    fairseq: str = "sentence_prediction"
    """fairseq's task and criterion."""

    @property
    def settings(self) -> str:
        """What tells trainings on this task from others, beside the content of its files."""
        return self.name if self.largest == 1 else f"{self.name} numbers / {self.largest:g}"

    def scores(self, predictions: Sequence[str], labels: Sequence[str]) -> Dict[str, float]:
        """The metrics, in percent; raises Failure if their packages are not installed."""
        positive = self.labels[-1] if self.labels else ""
        return {key: LABELS[key].of(predictions, labels, positive) for key in self.metrics}

    def files(self, folder: Path) -> List[Path]:
        """The files of the task in the user's folder; raises Failure if a file is missing."""
        return [find(str(folder / self.name / name), "tsv", REMEDY) for name in ("train", "dev")]

    def read(self, folder: Path) -> Sets:
        """The examples of each set."""
        sets: Sets = {}
        for split, path in zip(("train", "valid"), self.files(folder)):
            sets[split] = list(self._examples(path))
            if not sets[split]:
                raise Failure(f"{path} has no examples: copy or download it again")
        return sets

    def _examples(self, path: Path) -> Iterator[Example]:
        lines = enumerate((line.rstrip("\r").split("\t") for line in raw_lines(path)), 1)
        columns = self.columns or next(lines, (1, [""]))[1]
        for number, fields in lines:
            row = {name: field.strip() for name, field in zip(columns, fields)}
            label = row.get(self.label, "")
            right = label in self.labels if self.labels else re.fullmatch(r"\d+(\.\d+)?", label)
            if not right or len(fields) != len(columns) or not set(self.sentences) <= set(columns):
                what = f"{', '.join(self.sentences)} and {self.label} ({' or '.join(self.labels) or 'a number'})"
                raise Failure(f"{path}, line {number}: {self.name} has {len(columns)} columns, among them {what}")
            label = label if self.largest == 1 else f"{float(label) / self.largest:.6g}"
            yield Example(tuple(row[column] for column in self.sentences), label)


class Case(TypedDict):
    A: str
    B: str
    C: str


class CaseMatching(FineTuningTask):
    """CAIL2019-SCM: which of two Chinese cases is more like a third. The folder has ``input.jsonl``.

    The published sample has no labels. Upstream says of its training data that ``A`` is more similar to ``B`` than to
    ``C``; this is inferred here. The two choices take turns by the hash of the example, and all examples of one ``A``
    are in one set, a fifth of them in the validation set. But most texts are in several examples, of both sets:
    choosing the text that was more often the similar one in training is right in 72% of the validation set, without a
    look at ``A``. So a score shows that long text is computed with, and is no result.
    """

    def files(self, folder: Path) -> List[Path]:
        return [find(str(folder / "input"), "jsonl", REMEDY)]

    def read(self, folder: Path) -> Sets:
        (path,) = self.files(folder)
        sets: Sets = {"train": [], "valid": []}
        for triple in objects(path, Case):
            case, one, other = (triple[name] for name in self.sentences)
            swapped = share([case, one, other]) < 0.5
            choices = (other, one) if swapped else (one, other)
            sets["valid" if share([case]) < 0.2 else "train"].append(Example((case, *choices), "1" if swapped else "0"))
        return sets


PAIR = ("sentence1", "sentence2")
COLA = ("source", "label", "mark", "sentence")

GLUE = (
    FineTuningTask("CoLA", ("matthews",), ("sentence",), columns=COLA),
    FineTuningTask("MRPC", ("f1", "accuracy"), ("#1 String", "#2 String"), label="Quality"),
    FineTuningTask("RTE", ("accuracy",), PAIR, labels=("not_entailment", "entailment")),
    FineTuningTask("SST-2", ("accuracy",), ("sentence",)),
    FineTuningTask("STS-B", ("pearson", "spearman"), PAIR, label="score", labels=(), largest=5.0),
)
SCM = CaseMatching("SCM", ("accuracy",), ("A", "B", "C"), fairseq="sentence_ranking")

TASKS = {task.name: task for task in (*GLUE, SCM)}
