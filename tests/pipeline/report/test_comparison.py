"""Differences of systems, and how sure they are: over sentences, and over trainings."""

import statistics

import pytest

from pipeline.report.comparison import Comparison, Difference
from pipeline.report.systems import group
from pipeline.results.file import read_results
from pipeline.scoring.statistics import hierarchical_bootstrap, paired_bootstrap, resampled_bleu, rows

from .made_results import result, scored

SINUSOIDAL, ROTARY, LEARNED = "transformer_sinusoidal_tiny", "roformer_tiny", "transformer_learned_tiny"


def bleu(name, rate):
    return scored(name, rate)["scores"]["sacrebleu"]["score"]


def test_a_difference_is_significant_if_its_p_value_is():
    assert Difference({1: 0.5}, 0.0).significant and Difference({1: -0.5}, 0.049).significant
    assert not Difference({1: 0.5}, 0.05).significant
    assert not Difference({1: 0.5}).significant and Difference({1: 0.5}).verdict == "not tested"


def compared(folder, *seeds):
    """The difference of RoPE to sinusoidal positions, given pairs of error rates, one for each seed."""
    for seed, (own, other) in enumerate(seeds, 1):
        result(folder, ROTARY, seed, test=own)
        result(folder, SINUSOIDAL, seed, test=other)
    one, other = group([made for _, made in read_results([folder])[0]])
    found, back = (Comparison([one, other]).difference(*pair, "test") for pair in ((one, other), (other, one)))
    assert found.p == pytest.approx(back.p, abs=0.02) and found.value == -back.value
    return found


def test_with_one_seed_each_the_p_value_is_sacrebleus(tmp_path):
    for own in (0.3, 0.1):
        pair = [rows(scored("test", rate)["statistics"]) for rate in (0.301, own)]
        expected, signature = paired_bootstrap(pair[0], {"x": pair[1]})
        found = compared(tmp_path, (own, 0.301))
        assert (found.p, found.signature) == (expected["x"], signature)
        assert found.significant == (own == 0.1)


def test_with_several_seeds_a_difference_is_as_sure_as_the_trainings_are_alike(tmp_path):
    """Each pair of these trainings differs significantly on the sentences."""
    assert compared(tmp_path, (0.1, 0.3), (0.1, 0.301), (0.101, 0.3)).significant
    scattered = compared(tmp_path, (0.1, 0.3), (0.3, 0.1), (0.1, 0.2))
    assert not scattered.significant and scattered.range[0] < 0 < scattered.range[1]
    assert "sentences and 6 trainings" in scattered.signature


def test_the_bootstrap_has_the_variance_of_sentences_and_of_trainings():
    one, other = (resampled_bleu(rows(scored("test", rate)["statistics"])) for rate in (0.1, 0.4))
    assert one.mean() == pytest.approx(bleu("test", 0.1), abs=0.5)
    difference = bleu("test", 0.1) - bleu("test", 0.4)
    p, (low, high) = hierarchical_bootstrap([one], [other], difference, [])
    expected = statistics.quantiles((one - other).tolist(), n=40, method="inclusive")
    assert (low, high) == pytest.approx((expected[0], expected[-1])) and 0 < low < difference < high
    assert p == 1 / 1001
    deviations = [-3.0, -1.0, 1.0, 3.0]  # variance 5: of a difference of means of two and one trainings, 5 / 2 + 5
    _, (wide_low, wide_high) = hierarchical_bootstrap([one, one], [other], difference, deviations)
    width = ((high - low) ** 2 + (2 * 1.96) ** 2 * 7.5) ** 0.5
    assert wide_high - wide_low == pytest.approx(width, rel=0.1)
    no_difference, _ = hierarchical_bootstrap([one], [one], 0.0, deviations)
    assert no_difference == 1


def test_deviations_are_of_all_systems_with_several_seeds(tmp_path):
    runs = [(SINUSOIDAL, 1, 0.1), (SINUSOIDAL, 2, 0.2), (ROTARY, 1, 0.3), (ROTARY, 2, 0.4), (LEARNED, 1, 0)]
    for arch, seed, rate in runs:
        result(tmp_path, arch, seed, test=rate)
    comparison = Comparison(group([made for _, made in read_results([tmp_path])[0]]))
    halves = [(bleu("test", a) - bleu("test", b)) / 2**0.5 for a, b in ((0.3, 0.4), (0.1, 0.2))]
    assert sorted(comparison.deviations("test")) == pytest.approx(sorted([*halves, *(-half for half in halves)]))
