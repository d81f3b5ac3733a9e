"""The three kinds of models: which of fairseq's tasks train them, and which of its classes they extend."""

from typing import Any, Dict, NamedTuple, Optional, Tuple, Type

from fairseq.models import FairseqEncoderDecoderModel, FairseqLanguageModel
from fairseq.models.roberta import RobertaModel
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from fairseq.tasks.sentence_ranking import SentenceRankingTask
from fairseq.tasks.translation import TranslationTask
from torch import nn


class Kind(NamedTuple):
    """What tells one kind of model from the others."""

    model: Type[nn.Module]
    tasks: Tuple[type, ...]  # the common ones; users' own and fairseq's others may train any kind
    flag: str  # that chooses a task
    arch: str


KINDS: Dict[str, Kind] = {
    "translation": Kind(FairseqEncoderDecoderModel, (TranslationTask,), "--task translation", "roformer_base"),
    "masked": Kind(
        RobertaModel,
        (MaskedLMTask, SentencePredictionTask, SentenceRankingTask),
        "--task masked_lm, or one that fine-tunes it: sentence_prediction",
        "roformer_mlm_base",
    ),
    "causal": Kind(FairseqLanguageModel, (LanguageModelingTask,), "--task language_modeling", "roformer_lm_base"),
}
"""Name of a kind, to what tells it."""


def kind_of(task: Any) -> Optional[str]:
    """The kind of models that ``task`` trains, one of :data:`KINDS`; None if it is not known."""
    return next((name for name, kind in KINDS.items() if isinstance(task, kind.tasks)), None)


def check_task(task: Any, kind: str) -> None:
    """Raises ValueError if ``task`` is known to train another kind of models than ``kind``."""
    other = kind_of(task)
    if other is not None and other != kind:
        arch = f"for this task, choose a {other} model such as --arch {KINDS[other].arch}"
        raise ValueError(f"a {kind} model needs {KINDS[kind].flag}; {arch}")
