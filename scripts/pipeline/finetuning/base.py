"""What every task of fine-tuning has. It needs no fairseq."""

from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, NamedTuple, Tuple

from ..corpus.text import CorpusError


class Example(NamedTuple):
    """The sentences of an example, and its class or number."""

    sentences: Tuple[str, ...]
    label: str


SHORTENED = "shortened.json"
"""The file among the encoded data that says how many examples of each set are shortened."""

Sets = Dict[str, List[Example]]
"""The examples of each set, by fairseq's name: ``train`` and ``valid``."""


@dataclass(frozen=True)
class FineTuningTask:
    """A task: to classify sentences, to give them a number, or to choose among them."""

    name: str
    metrics: Tuple[str, ...]
    """Keys of the metrics in JSON files; the first one chooses the learning rate."""
    inputs: int
    """Sentences of an example."""
    labels: Tuple[str, ...] = ("0", "1")
    """The classes, the last one being positive; none: labels are numbers."""
    fairseq: str = "sentence_prediction"
    """fairseq's task and criterion."""

    @property
    def settings(self) -> str:
        """What tells trainings on this task from others, beside the content of its files."""
        return self.name

    def files(self, folder: Path) -> List[Path]:
        """The files of the task in the user's folder.

        Raises:
            CorpusError: a file is missing.
        """
        raise NotImplementedError

    def read(self, folder: Path) -> Sets:
        """The examples of each set.

        Raises:
            CorpusError: a file is missing, empty or broken; the message names the line.
        """
        raise NotImplementedError


def find(path: Path) -> Path:
    """The file, or the same with ``.gz``.

    Raises:
        CorpusError: both are missing.
    """
    for found in (path, path.with_name(f"{path.name}.gz")):
        if found.is_file():
            return found
    raise CorpusError(f"{path} not found (nor with .gz): give the folder with the files of the tasks as --data")
