"""Which kind of model goes with which task and criterion of fairseq; all others are refused with the remedy."""

import argparse
import itertools

import pytest
from fairseq import options
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
    "roformer_mlm_tiny": ("masked_lm", MASKED),
    "roformer_lm_tiny": ("language_modeling", ["language_modeling"]),
}
CRITERIA = {
    "fused_label_smoothed_cross_entropy": (LabelSmoothedCrossEntropyCriterionConfig(sentence_avg=False), False),
    "fused_masked_lm": (MaskedLmConfig(tpu=False), True),
}


def test_a_model_takes_the_tasks_of_its_kind():
    for arch, (kind, fitting) in ARCHITECTURES.items():
        for name in TASKS:
            if name in fitting:
                assert build_model(argparse.Namespace(arch=arch), TASKS[name])
            else:
                other = next(other for other, (_, names) in ARCHITECTURES.items() if name in names)
                with pytest.raises(ValueError, match=rf"--task {kind}.* --arch {other.replace('_tiny', '_base')}"):
                    build_model(argparse.Namespace(arch=arch), TASKS[name])


def test_a_decoder_of_base_size_has_the_encoders_widths_as_fairseqs():
    for flags in ([], ["--encoder-embed-dim", "64"], ["--encoder-ffn-embed-dim", "96", "--decoder-embed-dim", "32"]):
        ours, stock = (
            options.parse_args_and_arch(options.get_training_parser(), [".", "--arch", arch, *flags])
            for arch in ("roformer_base", "transformer")
        )
        for side, width in itertools.product(("encoder", "decoder"), ("embed_dim", "ffn_embed_dim")):
            assert vars(ours)[f"{side}_{width}"] == vars(stock)[f"{side}_{width}"], flags


def test_a_fused_loss_takes_the_tasks_of_its_kind():
    for criterion, (config, masked) in CRITERIA.items():
        cfg = OmegaConf.create({**vars(config), "_name": criterion})
        for name in TASKS:
            if (name in MASKED) == masked:
                assert build_criterion(cfg, TASKS[name])
            else:
                with pytest.raises(ValueError, match=f"--criterion {criterion}"):
                    build_criterion(cfg, TASKS[name])
