"""Similar case matching (CAIL2019-SCM): which of two Chinese cases is more like a third. It needs no fairseq.

The published sample has no labels. Upstream says of its training data that ``A`` is more similar to ``B`` than to
``C``; this is inferred here. The two choices take turns by the hash of the example, and all examples of one ``A`` are
in one set. But most texts are in several examples, of both sets: choosing the text that was more often the similar one
in training is right in 72% of the validation set, without a look at ``A``. So a score shows that long text is computed
with, and is no result.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import List

from ..corpus.documents import objects, share
from ..corpus.text import CorpusError
from ..shape import TEXT
from .base import Example, FineTuningTask, Sets, find

VALID = 0.2
"""The part of the texts ``A`` whose examples are the validation set."""

SHAPE = {"A": TEXT, "B": TEXT, "C": TEXT}


@dataclass(frozen=True)
class ScmTask(FineTuningTask):
    """The task; the folder has ``input.jsonl``."""

    def files(self, folder: Path) -> List[Path]:
        return [find(folder / "input.jsonl")]

    def read(self, folder: Path) -> Sets:
        (path,) = self.files(folder)
        sets: Sets = {"train": [], "valid": []}
        for triple in objects(path, SHAPE):
            case, one, other = (triple[key] for key in SHAPE)
            swapped = share([case, one, other]) < 0.5
            choices = (other, one) if swapped else (one, other)
            split = "valid" if share([case]) < VALID else "train"
            sets[split].append(Example((case, *choices), "1" if swapped else "0"))
        for split, examples in sets.items():
            if not examples:
                raise CorpusError(f"{path}: no examples for the set '{split}': give more")
        return sets


SCM = ScmTask("SCM", ("accuracy",), 3, fairseq="sentence_ranking")
