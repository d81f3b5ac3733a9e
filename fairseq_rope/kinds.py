"""The three kinds of models: which of fairseq's classes they extend, which of its tasks train them, and their sizes."""

from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple, Type

from fairseq.models import FairseqEncoderDecoderModel, FairseqLanguageModel
from fairseq.models.roberta import RobertaModel
from fairseq.models.roberta.model import base_architecture as base_masked_architecture
from fairseq.models.transformer.transformer_legacy import base_architecture
from fairseq.models.transformer_lm import base_lm_architecture
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from fairseq.tasks.sentence_ranking import SentenceRankingTask
from fairseq.tasks.translation import TranslationTask
from torch import nn

SIZES: Dict[str, Dict[str, Any]] = {
    "base": dict(embed_dim=512, ffn_embed_dim=2048, attention_heads=8, layers=6, dropout=0.1),
    "big": dict(embed_dim=1024, ffn_embed_dim=4096, attention_heads=16, layers=6, dropout=0.3),
    "iwslt_de_en": dict(embed_dim=512, ffn_embed_dim=1024, attention_heads=4, layers=6, dropout=0.1),
    "multi30k": dict(embed_dim=128, ffn_embed_dim=256, attention_heads=4, layers=4, dropout=0.3),
    "tiny": dict(embed_dim=128, ffn_embed_dim=256, attention_heads=4, layers=2, dropout=0.1),
}
"""Of translation: dimensions of both sides; ``base`` and ``big`` as in Vaswani et al. 2017, table 3."""

LANGUAGE_SIZES: Dict[str, Dict[str, Any]] = {
    "base": dict(embed_dim=768, ffn_embed_dim=3072, attention_heads=12, layers=12),
    "small": dict(embed_dim=256, ffn_embed_dim=1024, attention_heads=4, layers=4),
    "tiny": dict(embed_dim=128, ffn_embed_dim=256, attention_heads=4, layers=2),
}
"""Of language models; ``base`` as in BERT, and as RoFormer's and TUPE's experiments have it."""

ENWIK8: Dict[str, Any] = dict(LANGUAGE_SIZES["base"], attention_dropout=0.0)
"""RoFormer's experiment with linear attention (section 4.4), which has no weights to drop."""


class Kind(NamedTuple):
    """What tells one kind of model from the others, and what its architectures have in common."""

    base: Type[nn.Module]  # fairseq's class
    tasks: Tuple[type, ...]  # the common ones; users' own and fairseq's others may train any kind
    flag: str  # that chooses a task
    infix: str  # between family and size in the names of architectures
    model: str  # the name of the plugin's model, and of its base size
    stock: str  # the name of fairseq's model
    sides: Tuple[str, ...]
    sizes: Dict[str, Dict[str, Any]]
    defaults: Dict[str, Any]  # of options that have no side
    fill: Callable[[Any], None]  # fairseq's defaults
    fills_late: bool = False  # RoBERTa fills them in itself, when it knows its longest text
    stack: str = ""  # between a side and its modules, in the names of parameters


KINDS: Dict[str, Kind] = {
    "translation": Kind(
        base=FairseqEncoderDecoderModel,
        tasks=(TranslationTask,),
        flag="--task translation",
        infix="",
        model="roformer",
        stock="transformer",
        sides=("encoder", "decoder"),
        sizes=SIZES,
        defaults={},
        fill=base_architecture,
    ),
    "masked": Kind(
        base=RobertaModel,
        tasks=(MaskedLMTask, SentencePredictionTask, SentenceRankingTask),
        flag="--task masked_lm, or one that fine-tunes it: sentence_prediction",
        infix="mlm_",
        model="roformer_mlm",
        stock="roberta",
        sides=("encoder",),
        sizes=LANGUAGE_SIZES,
        defaults={},
        fill=base_masked_architecture,
        fills_late=True,
        stack="sentence_encoder.",
    ),
    "causal": Kind(
        base=FairseqLanguageModel,
        tasks=(LanguageModelingTask,),
        flag="--task language_modeling",
        infix="lm_",
        model="roformer_lm",
        stock="transformer_lm",
        sides=("decoder",),
        sizes={**LANGUAGE_SIZES, "enwik8": ENWIK8},
        defaults=dict(dropout=0.1, attention_dropout=0.1, activation_fn="gelu"),  # as in GPT, and in fairseq's RoBERTa
        fill=base_lm_architecture,
    ),
}
"""The one table of kinds, by name."""


def kind_of(task: Any) -> Optional[str]:
    """The kind of models that ``task`` trains, one of :data:`KINDS`; None if it is not known."""
    return next((name for name, kind in KINDS.items() if isinstance(task, kind.tasks)), None)


def check_task(task: Any, kind: str) -> None:
    """Raises ValueError if ``task`` is known to train another kind of models than ``kind``."""
    other = kind_of(task)
    if other is not None and other != kind:
        arch = f"for this task, choose a {other} model such as --arch {KINDS[other].model}_base"
        raise ValueError(f"a {kind} model needs {KINDS[kind].flag}; {arch}")
