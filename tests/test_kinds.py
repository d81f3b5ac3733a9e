"""Which kind of model goes with which task and criterion of fairseq; all others are refused with the remedy."""

import argparse

import pytest
from fairseq.criterions import build_criterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterionConfig
from fairseq.criterions.masked_lm import MaskedLmConfig
from fairseq.models import build_model
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask
from fairseq.tasks.sentence_ranking import SentenceRankingTask
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import OmegaConf

from .helpers import task

WORDS = task().source_dictionary
SMALL = argparse.Namespace(tokens_per_sample=64, max_positions=64)
TASKS = {
    "translation": TranslationTask(TranslationConfig(), WORDS, WORDS),
    "masked_lm": MaskedLMTask(MaskedLMConfig(tokens_per_sample=64), WORDS),
    "sentence_prediction": SentencePredictionTask(SentencePredictionConfig(max_positions=64), WORDS, WORDS),
    "sentence_ranking": SentenceRankingTask(SMALL, WORDS),
    "language_modeling": LanguageModelingTask(SMALL, WORDS),
}
MASKED = ("masked_lm", "sentence_prediction", "sentence_ranking")
ARCHITECTURES = {
    "roformer_tiny": ("translation", ["translation"]),
    "roformer_mlm_tiny": ("masked", MASKED),
    "roformer_lm_tiny": ("causal", ["language_modeling"]),
}
CRITERIA = {
    "fused_label_smoothed_cross_entropy": (LabelSmoothedCrossEntropyCriterionConfig(sentence_avg=False), False),
    "fused_masked_lm": (MaskedLmConfig(tpu=False), True),
}
FLAGS = {"translation": "translation", "masked": "masked_lm", "causal": "language_modeling"}


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_model_takes_the_tasks_of_its_kind(arch, name):
    kind, fitting = ARCHITECTURES[arch]
    if name in fitting:
        assert build_model(argparse.Namespace(arch=arch), TASKS[name])
        return
    other = next(arch for arch, (_, names) in ARCHITECTURES.items() if name in names).replace("_tiny", "_base")
    message = f"^a {kind} model needs --task {FLAGS[kind]}.*; for this task, choose a .* model such as --arch {other}$"
    with pytest.raises(ValueError, match=message):
        build_model(argparse.Namespace(arch=arch), TASKS[name])


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_fused_loss_takes_the_tasks_of_its_kind(criterion, name):
    config, masked = CRITERIA[criterion]
    cfg = OmegaConf.create({**vars(config), "_name": criterion})
    if (name in MASKED) == masked:
        assert build_criterion(cfg, TASKS[name])
        return
    with pytest.raises(ValueError, match=f"--criterion {criterion} is (not )?for masked models: .* fused_"):
        build_criterion(cfg, TASKS[name])
