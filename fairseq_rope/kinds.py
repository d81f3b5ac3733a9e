"""The three kinds of models: which of fairseq's tasks train them, and which of its classes they extend."""

from typing import Dict, NamedTuple, Tuple, Type

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
