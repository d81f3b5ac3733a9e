"""Differences of systems, and how sure they are: over sentences, and over trainings."""

import statistics

import numpy as np
import pytest

from pipeline.report import comparison
from pipeline.report.comparison import Difference, choose_baseline, compare
from pipeline.report.systems import SystemResults, group
from pipeline.results import read_results
from pipeline.scoring.statistics import (
    Spread,
    draw_variances,
    hierarchical_bootstrap,
    pooled,
    resampled_bleu,
    rows,
    spread,
)
from pipeline.scoring.statistics import bleu as corpus_bleu

from .made_results import LEARNED, ROTARY, SINUSOIDAL, result, scored
from .made_results import exact_bleu as bleu


def systems_of(folder):
    return sorted(group(read_results([folder])[0]), key=lambda system: system.name)


def test_a_difference_has_the_direction_that_is_certain():
    assert Difference((0.5,), (0.0,), 0.049).relation == ">" and Difference((0.0,), (0.5,), 0.049).relation == "<"
    assert Difference((0.5,), (0.0,), 0.05).relation == "≈"
    assert Difference((0.5,), (0.0,), 0.01, sign=-1).relation == "<", "a perplexity"
    assert Difference((0.5, 0.2), (0.0, 0.1)).relation == ">", "without a test, if each seed has it"
    assert Difference((0.5, 0.1), (0.0, 0.2)).relation == "≈"


def test_the_baseline_is_sinusoidal_with_most_trainings_and_no_variant():
    def system(arch, seeds=1, variant="", first=0):
        return SystemResults(arch, variant, runs={first + seed: [] for seed in range(seeds)})

    rope, big, base = system("roformer_base", 9), system("transformer_sinusoidal_big"), system(SINUSOIDAL, 3)
    variant = system(SINUSOIDAL, 5, "v")
    assert choose_baseline([rope, big, variant, base]) is base and choose_baseline([variant, rope]) is rope
    learned = system("transformer_learned_mlm_base")
    assert choose_baseline([system("transformer_sinusoidal_mlm_base"), learned]) is learned
    assert choose_baseline([rope, base], "roformer_base") is rope and choose_baseline([rope], "x") is None
    elsewhere = system(SINUSOIDAL, 3, first=100)  # of which no seed is another system's
    assert choose_baseline([rope, elsewhere, base]) is choose_baseline([rope, base, elsewhere]) is base


def compared(folder, *seeds):
    """The difference of RoPE to sinusoidal positions, given pairs of error rates, one for each seed."""
    for seed, (own, other) in enumerate(seeds, 1):
        result(folder, ROTARY, seed, test=own)
        result(folder, SINUSOIDAL, seed, test=other)
    one, other = systems = systems_of(folder)
    found, back = (compare(*pair, "test", systems=systems) for pair in ((one, other), (other, one)))
    assert found.p == pytest.approx(back.p, abs=0.02) and found.value == -back.value
    return found


def test_with_one_seed_each_sentences_alone_are_drawn(tmp_path):
    for own in (0.3, 0.1):
        found = compared(tmp_path, (own, 0.301))
        assert (found.relation == ">") == (own == 0.1) and not found.over_trainings
        assert found.signature == "sentences|n:1000|seed:12345"


def test_where_it_is_known_how_much_trainings_differ_all_of_them_count(tmp_path):
    for arch, seed, rate in ((ROTARY, 1, 0.1), (ROTARY, 2, 0.3), (SINUSOIDAL, 2, 0.3), (LEARNED, 4, 0.4)):
        result(tmp_path, arch, seed, test=rate)
    rotary, learned, other = systems = systems_of(tmp_path)
    scores = {rate: bleu("test", rate) for rate in (0.1, 0.3, 0.4)}
    found, alike = (compare(rotary, each, "test", systems=systems) for each in (learned, other))
    assert found.value == pytest.approx((scores[0.1] + scores[0.3]) / 2 - scores[0.4])
    assert alike.value == pytest.approx((scores[0.1] - scores[0.3]) / 2) and alike.over_trainings
    assert compare(learned, other, "test", systems=[learned, other]) is None, "no seed in common"
    assert compare(rotary, other, "test").value == pytest.approx(0), "over the seed that both have"


def test_equal_outputs_do_not_differ(tmp_path):
    assert compared(tmp_path, (0.3, 0.3)).p == 1


def test_on_a_single_document_no_difference_is_tested(tmp_path):
    """All samples of it are equal, so every difference would be certain."""
    for arch, rate in ((ROTARY, 0.1), (SINUSOIDAL, 0.3)):
        columns = {name: values[:1] for name, values in scored("test", rate)["statistics"].items()}
        figures = {"sacrebleu": {"score": round(corpus_bleu(rows(columns)), 2), "signature": "s"}}
        entry = {"subset": "test", "sentences": 1, "settings": "", "scores": figures, "statistics": columns}
        result(tmp_path, arch, more={"tests": {"test": entry}})
    found = compare(*systems_of(tmp_path), "test")
    assert found.p is None and found.interval is None


def test_with_several_seeds_a_difference_is_as_sure_as_the_trainings_are_alike(tmp_path):
    """Each pair of these trainings differs significantly on the sentences."""
    assert compared(tmp_path, (0.1, 0.3), (0.1, 0.301), (0.101, 0.3)).relation == ">"
    scattered = compared(tmp_path, (0.1, 0.3), (0.3, 0.1), (0.1, 0.2))
    assert scattered.relation == "≈" and scattered.interval[0] < 0 < scattered.interval[1]
    assert "sentences and trainings|variance:" in scattered.signature and "|freedom:4|" in scattered.signature


def test_the_bootstrap_has_the_variance_of_sentences_and_of_trainings():
    one, other = (resampled_bleu(rows(scored("test", rate)["statistics"])) for rate in (0.1, 0.4))
    assert one.mean() == pytest.approx(bleu("test", 0.1), abs=0.5)
    difference = bleu("test", 0.1) - bleu("test", 0.4)
    p, (low, high) = hierarchical_bootstrap([one], [other], difference)
    expected = statistics.quantiles((one - other).tolist(), n=40, method="inclusive")
    assert (low, high) == pytest.approx((expected[0], expected[-1])) and 0 < low < difference < high
    assert p == 1 / 1001
    many = 10**6
    spreads = [Spread(12.0 * many, 3.0 * many, many), Spread(9.0 * many, 8.0 * many, many)]  # beyond sentences: 9 and 1
    _, (wide_low, wide_high) = hierarchical_bootstrap([one] * 4, [other], difference, spreads)
    width = ((high - low) ** 2 + (2 * 1.96) ** 2 * (9 / 4 + 1)) ** 0.5
    assert wide_high - wide_low == pytest.approx(width, rel=0.05)
    no_difference, (low, high) = hierarchical_bootstrap([one], [one], 0.0, spreads)
    assert no_difference == 1 and high - low == pytest.approx(2 * 1.96 * 10**0.5, rel=0.05)
    explained = [Spread(1.0 * many, 2.0 * many, many)] * 2
    assert hierarchical_bootstrap([one], [one], 0.0, explained) == (1, (0, 0))
    known = ([Spread(), Spread(), *[Spread(1.0 * many, part * many, many)] * 2] for part in (0.0, 0.9))
    (_, (_, wide)), (_, (_, narrow)) = (hierarchical_bootstrap([one], [one], 0.0, spreads) for spreads in known)
    assert narrow < 0.8 * wide, "the sentences explain as much of a system with one training as of others"
    assert hierarchical_bootstrap([one], [one], 0.0, [spread([30.1] * 3, [one] * 3), Spread()]) == (1, (0, 0))


@pytest.mark.parametrize("freedom", [1, 2, 7])
def test_a_difference_is_significant_if_its_interval_leaves_out_0(freedom):
    known = [Spread(1.0 * freedom, 0.0, freedom)] * 2
    found = [hierarchical_bootstrap([np.full(1000, x)], [np.zeros(1000)], x, known) for x in np.arange(0.1, 40, 0.3)]
    assert all((p < 0.0499) <= (low > 0) and (low > 0) <= (p < 0.0501) for p, (low, _) in found)
    assert found[0][0] > 0.5 and found[-1][0] < 0.05


def test_the_variance_over_seeds_is_of_all_systems_with_several(tmp_path):
    runs = [(SINUSOIDAL, 1, 0.1), (SINUSOIDAL, 2, 0.2), (ROTARY, 1, 0.3), (ROTARY, 2, 0.4), (LEARNED, 1, 0)]
    for arch, seed, rate in runs:
        result(tmp_path, arch, seed, test=rate)
    first, *_ = systems = systems_of(tmp_path)
    spreads = comparison._spreads(first, systems[-1], "test", systems)
    total, by_sentences, freedom = pooled(spreads)
    pairs = ((0.1, 0.2), (0.3, 0.4))
    assert freedom == 2 and [each.freedom for each in spreads] == [1, 1]
    assert total == pytest.approx(sum((bleu("test", a) - bleu("test", b)) ** 2 / 2 for a, b in pairs) / 2)
    resampled = {rate: resampled_bleu(rows(scored("test", rate)["statistics"])) for rate in (0.1, 0.2, 0.3, 0.4)}
    assert by_sentences == pytest.approx(sum((resampled[a] - resampled[b]).var() / 2 for a, b in pairs) / 2)


def test_trainings_that_were_averaged_in_two_ways_count_once(tmp_path):
    (other := tmp_path / "three").mkdir()
    for seed, rate in enumerate((0.1, 0.2), 1):
        result(tmp_path, ROTARY, seed, test=rate)
        result(tmp_path, SINUSOIDAL, seed, test=rate)
        result(other, SINUSOIDAL, seed, training={"averaged": 3}, test=rate)
    result(other, SINUSOIDAL, 1, "v", test=0.3)
    systems = sorted(group(read_results([tmp_path, other])[0]), key=lambda system: system.name)
    one, five, three, single = systems
    assert [each.freedom for each in comparison._spreads(one, single, "test", systems)] == [1, 0, 1]
    assert [each.freedom for each in comparison._spreads(one, three, "test", systems)] == [1, 1]
    found = compare(five, single, "test", systems=systems)
    assert found.own == (bleu("test", 0.1),) and not found.over_trainings, "the same training: over the common seed"


def test_systems_near_0_do_not_make_others_surer(tmp_path):
    for arch, rates in ((ROTARY, (0.1, 0.2)), (SINUSOIDAL, (0.3,)), (LEARNED, (0.97, 0.98))):
        for seed, rate in enumerate(rates, 1):
            result(tmp_path, arch, seed, test=rate)
    rotary, learned, other = systems = systems_of(tmp_path)
    assert all(score < 1 for score in learned.scores("test", "sacrebleu").values())
    assert [each.freedom for each in comparison._spreads(rotary, other, "test", systems)] == [1, 0]
    assert [each.freedom for each in comparison._spreads(rotary, learned, "test", systems)] == [1, 1]


def test_the_more_alike_systems_vary_the_more_they_learn_from_each_other():
    def middle(*squares):
        spreads = [Spread(float(each), 0.0, 2) for each in squares]
        return [float(np.median(drawn)) for drawn in draw_variances(spreads, 20_000, np.random.default_rng(1))]

    alike = middle(4, 1, *[1, 2, 3, 4] * 5)
    apart = middle(4, 1, *[0.01, 10, 0.1, 100] * 5)
    assert 1 < alike[0] / alike[1] < 1.5 and 2 < apart[0] / apart[1] <= 4
    (own, _), many = middle(4, 4), 10**6
    assert 1 < own < 6
    (sure, other) = draw_variances([Spread(3.0 * many, 0.0, many), Spread()], 20_000, np.random.default_rng(1))
    assert np.median(sure) == pytest.approx(3, rel=0.01) and 1 < np.median(other) < 9 and other.std() > sure.std()


def simulated(numbers, deviations, seeds, by_sentences=0.0):
    """BLEU and resampled BLEU of trainings of equal systems. Two also differ in the sentences they translate well."""
    systems = []
    for deviation, n in zip(deviations, seeds):
        scores = numbers.normal(0, 0.03**0.5) + numbers.normal(0, deviation, n)
        of_system, own = numbers.normal(0, 0.03**0.5, 1000), numbers.normal(0, by_sentences**0.5, (n, 1000))
        systems.append((scores, scores[:, None] + of_system + own))
    return systems


def share_found_different(deviations, seeds, by_sentences=0.0, trials=400):
    """Of equal systems: how often the first two are found different."""
    numbers, count = np.random.default_rng(1), 0
    for _ in range(trials):
        systems = simulated(numbers, deviations, seeds, by_sentences)
        spreads = [spread(*system) if len(system[0]) > 1 else Spread() for system in systems]
        (one, resampled), (other, others) = systems[:2]
        count += hierarchical_bootstrap(resampled, others, one.mean() - other.mean(), spreads)[0] < 0.05
    return count / trials


@pytest.mark.parametrize("seeds", [(1, 1, 2), (2, 2), (2,) * 5, (3,) * 9])
@pytest.mark.parametrize("by_sentences,beyond", [(0.09, 0.01), (0.06, 0.1), (0.01, 0.15)])
def test_of_equal_systems_at_most_one_in_twenty_is_found_different(seeds, by_sentences, beyond):
    """However few trainings there are, and wherever their variance comes from. The bootstrap over sentences alone finds
    up to two in five of these different."""
    deviations = [(by_sentences + beyond) ** 0.5] * len(seeds)
    assert share_found_different(deviations, seeds, by_sentences) <= 0.05 + 2 * (0.05 * 0.95 / 400) ** 0.5


@pytest.mark.parametrize(
    "deviations, most", [((1.5, 1.5, 0.5, 0.5), 0.1), ((2, 0.5, 1, 1, 1, 1), 0.1), ((3, 3, *[1] * 7), 1 / 7)]
)
def test_where_systems_vary_unequally_few_are(deviations, most):
    """One variance for all of them, the mean, finds up to a quarter."""
    assert share_found_different(deviations, (3,) * len(deviations)) <= most + (most * (1 - most) / 400) ** 0.5
