"""The tasks that a recipe can name: translation, and two kinds of language models. It imports nothing from here.

What differs between them is here, and in the two commands of scripts/train.sh.
"""

from dataclasses import dataclass
from typing import Dict


@dataclass(frozen=True)
class Task:
    """What models of one kind are trained for; the values are those of translation."""

    name: str
    """As fairseq calls it."""
    is_text: bool = False
    """Whether its data are documents, not pairs."""
    prepare: str = "prepare.sh"
    """The script that prepares its data."""
    evaluate: str = "score.sh"
    """The script that evaluates its models on a test set."""
    settings: str = "beam 4, lenpen 0.6"
    """The settings of that script without options; empty: it has none."""
    metric: str = "sacrebleu"
    """The figure that each evaluated test set has, by its key in JSON files."""
    predicts_all: bool = True
    """Whether the model predicts every token of a text, so that the loss says how many bits the text has."""
    criterion: str = ""
    """The default of ``--criterion`` in the command for text; a recipe's flags win over it."""
    share_embeddings: str = ""
    """The flag of its models for one matrix of input and output embeddings; empty: they share it by themselves."""
    trained_by: str = "train.sh"
    """The script that trains its models."""


def _text(name: str, **values: object) -> Task:
    fixed = dict(is_text=True, prepare="prepare_text.sh", evaluate="evaluate.sh", settings="", metric="perplexity")
    return Task(name, **{**fixed, **values})  # type: ignore[arg-type]


TASKS: Dict[str, Task] = {
    task.name: task
    for task in (
        Task("translation"),
        _text("masked_lm", predicts_all=False, criterion="fused_masked_lm"),
        _text(
            "language_modeling",
            criterion="fused_label_smoothed_cross_entropy",
            share_embeddings="--share-decoder-input-output-embed",
        ),
        _text("sentence_prediction", prepare="", evaluate="", metric="", trained_by="finetune.sh"),
    )
}
"""By the entry ``task`` of a recipe."""
