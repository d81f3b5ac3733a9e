"""Every family of language models on fairseq's command lines: training, resumption, evaluation, fine-tuning."""

import pytest

from fairseq_rope.architectures import FAMILIES

from .test_language_models import CAUSAL, MASKED, TRAIN, last_line, resumed, texts, tool

__all__ = ["texts"]  # a fixture


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_masked_model_of_every_family_trains_resumes_is_evaluated_and_is_tuned(texts, tmp_path, family):
    arch = ["--arch", f"{family}_mlm_tiny"]
    path = resumed(texts / "texts", tmp_path, *arch, *MASKED)
    evaluated = tool("validate", texts / "texts", "--path", path, *MASKED[:4], "--batch-size", 4)
    assert "| valid on 'valid' subset | loss " in last_line(evaluated)
    tune = [*arch, "--restore-file", path, "--reset-optimizer", "--reset-dataloader", "--reset-meters", *TRAIN[:-2]]
    tune += ["--task", "sentence_prediction", "--criterion", "sentence_prediction", "--num-classes", 2]
    tune += ["--max-positions", 32, "--init-token", 0, "--separator-token", 2, "--max-update", 1]
    tuned = tool("train", texts / "pairs", *tune, "--save-dir", tmp_path / "tuned")
    assert '"valid_num_updates": "1"' in tuned.stderr + tuned.stdout


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_a_causal_model_of_every_family_trains_resumes_and_is_evaluated(texts, tmp_path, family):
    path = resumed(texts / "texts", tmp_path, "--arch", f"{family}_lm_tiny", *CAUSAL)
    options = ["--path", path, "--tokens-per-sample", 32, "--batch-size", 4, "--gen-subset", "valid"]
    assert "Perplexity" in last_line(tool("eval-lm", texts / "texts", *options))
