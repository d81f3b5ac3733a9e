"""The data of the report: order, differences, what cannot be told apart, fine-tuning, steps."""

import statistics

import pytest

from .made_results import LEARNED, ROTARY, SINUSOIDAL, model, named, recipe, result, tuned
from .made_results import exact_bleu as bleu


def test_scores_and_differences_are_means_over_seeds(tmp_path):
    for seed, own, other in ((1, 0.1, 0.3), (2, 0.2, 0.3)):
        result(tmp_path, ROTARY, seed, test=own)
        result(tmp_path, SINUSOIDAL, seed, test=other)
    result(tmp_path, LEARNED, 3, test=0.5)
    made = recipe(tmp_path)
    systems = named(made)
    assert list(systems) == [ROTARY, SINUSOIDAL, LEARNED], "the best first"
    own = [bleu("test", 0.1), bleu("test", 0.2)]
    assert systems[ROTARY].spread("test", "sacrebleu") == [statistics.fmean(own), statistics.stdev(own)]
    assert systems[LEARNED].spread("test", "sacrebleu") == [bleu("test", 0.5)]
    found = made.differences[systems[ROTARY]]
    assert found.own == tuple(own) and found.value == pytest.approx(statistics.fmean(own) - bleu("test", 0.3))
    assert made.baseline not in made.differences


def test_what_cannot_be_told_from_the_best_is_named_the_smallest_first(tmp_path):
    for arch, rate, size in ((SINUSOIDAL, 0.4, 9), (ROTARY, 0.1, 8), (LEARNED, 0.1, 7), ("tupe_a_tiny", 0.1, 6)):
        result(tmp_path, arch, training={"parameters": size}, test=rate)
    made = recipe(tmp_path)
    assert made.scored[0].name == ROTARY
    assert [system.name for system in made.close] == ["tupe_a_tiny", LEARNED]


def test_the_validation_set_never_ranks_and_the_first_test_set_is_that_of_most_runs(tmp_path):
    result(tmp_path, SINUSOIDAL, val=0.1, test_x2=0.1)
    result(tmp_path, ROTARY, val=0.4, test=0.1, test_x2=0.3)
    result(tmp_path, LEARNED, val=0.3, test=0.2, test_x2=0.3)
    made = recipe(tmp_path)
    assert (made.tests, made.validation) == (["test_x2", "test"], ["val"])
    assert next(iter(named(made))) == SINUSOIDAL


def test_the_lowest_perplexity_is_the_best_and_nothing_tests_it(tmp_path):
    for arch, values in (("roformer_mlm_tiny", (15.0, 16.0)), ("transformer_learned_mlm_tiny", (20.0, 21.0))):
        for seed, value in enumerate(values, 1):
            model(tmp_path, arch, value, seed)
    made = recipe(tmp_path)
    assert [system.name for system in made.systems] == ["roformer_mlm_tiny", "transformer_learned_mlm_tiny"]
    (found,) = made.differences.values()
    assert (found.value, found.p, found.relation) == (-5.0, None, ">") and not made.close


def test_the_tasks_of_a_fine_tuning_are_sets_of_one_recipe_that_their_average_ranks(tmp_path):
    for arch, gain in (("transformer_learned_mlm_tiny", 0.0), (ROTARY, 4.0)):
        tuned(tmp_path, arch, "CoLA", matthews=20.0 + gain, rates=(3e-5, 1e-3))
        tuned(tmp_path, arch, "STS-B", pearson=70.0, spearman=60.0)
    tuned(tmp_path, "tupe_a_mlm_tiny", "CoLA", matthews=99.0)
    made = recipe(*tmp_path.iterdir())
    assert made.name == "glue" and made.tests == ["CoLA", "STS-B"]
    best, other, partial = made.systems
    assert (best.name, made.scores(best), made.scores(partial)) == (ROTARY, {1: 47.0}, {})
    assert made.baseline is other and made.differences[best].value == 2.0 and partial not in made.scored
    assert best.spread("CoLA", "matthews") == [24.0, 1.0], "the deviation is that of the chosen learning rate"


def test_models_that_were_pretrained_otherwise_are_told_apart_in_every_task(tmp_path):
    for task, metric in (("CoLA", "matthews"), ("RTE", "accuracy")):
        for way, updates, value in (("a", 2000, 1.0), ("b", 2000, 2.0), ("a", 1000, 3.0)):
            tuned(tmp_path, ROTARY, task, way=way, updates=updates, **{metric: value})
    made = recipe(*tmp_path.iterdir())
    assert [made.scores(system) for system in made.systems] == [{1: 3.0}, {1: 2.0}, {1: 1.0}]
