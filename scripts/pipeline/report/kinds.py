"""What the report says otherwise by the task of the models; tasks that are not here have the words of translation."""

from dataclasses import dataclass
from typing import Dict, Sequence, Tuple

from ..results.file import Result
from ..tasks import TASKS, Task


@dataclass(frozen=True)
class Kind:
    """The words about the recipes of one task; the values are those of translation."""

    task: Task = TASKS["translation"]
    unit: str = "sentence"
    """What a test set consists of."""
    tokens: str = "target tokens"
    """What a training counts."""
    settings: str = "decoding"
    """The name of a test set's settings; empty: the signatures of the metrics have them."""
    baselines: Tuple[str, ...] = ("transformer_sinusoidal_",)
    """Architectures to compare with, without the size; the first one that was run counts."""
    tested: bool = True
    """Whether a paired bootstrap tests its differences, and test sets of longer sentences belong to the first one."""


def _text(name: str, *baselines: str) -> Kind:
    return Kind(TASKS[name], "line", "tokens", "", baselines, tested=False)


KINDS: Dict[str, Kind] = {
    "masked_lm": _text("masked_lm", "transformer_learned_mlm_"),
    "language_modeling": _text("language_modeling", "transformer_learned_lm_", "transformer_linear_learned_lm_"),
}
"""By the task that ``run.json`` names; translation names none."""


def kind_of(results: Sequence[Result]) -> Kind:
    """The kind of the results of one recipe."""
    return KINDS.get(str(results[0]["run"].get("task")), Kind()) if results else Kind()


def is_tuned(result: Result) -> bool:
    """Whether a result is of ``scripts/finetune.sh``, which tries a grid of learning rates and seeds."""
    return "grid" in result
