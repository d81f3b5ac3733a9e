"""The tasks that a recipe can name: translation, two kinds of language models, fine-tuning.

What differs between them is here, and in the recipe of each name, which others extend.
"""

from dataclasses import dataclass
from typing import Dict, Tuple


@dataclass(frozen=True)
class Task:
    """What models of one kind are trained for; the values are those of translation."""

    name: str
    """As fairseq calls it."""
    is_text: bool = False
    """Whether its data are documents, not pairs."""
    metric: str = "sacrebleu"
    """The figure that each evaluated test set has, by its key in JSON files."""
    predicts_all: bool = True
    """Whether the model predicts every token of a text, so that the loss says how many bits the text has."""
    stock: str = "fairseq_transformer_base:label_smoothed_cross_entropy:adam"
    """fairseq's own architecture, criterion and optimizer, with which ``benchmark.sh train`` compares at any size."""
    archs: Tuple[str, ...] = ("transformer_sinusoidal_base", "roformer_base")
    """What it compares unless the user names others: the same model in this plugin, and another encoding."""


MASKED = ("transformer_learned_mlm_base", "roformer_mlm_base")
CAUSAL = ("transformer_sinusoidal_lm_base", "roformer_lm_base")

TASKS: Dict[str, Task] = {
    task.name: task
    for task in (
        Task("translation"),
        Task("masked_lm", True, "perplexity", False, "fairseq_transformer_mlm_base:masked_lm:adam", MASKED),
        Task("language_modeling", True, "perplexity", True, "fairseq_transformer_lm_base:cross_entropy:adam", CAUSAL),
        Task("sentence_prediction", True, "", True, "fairseq_transformer_mlm_base:sentence_prediction:adam", MASKED),
    )
}
"""By the entry ``task`` of a recipe."""
