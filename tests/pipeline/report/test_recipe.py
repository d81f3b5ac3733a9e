"""The data of the report: order, differences, the answer, variants, longer sentences, what was not run."""

import statistics

import pytest

from pipeline.command import Failure
from pipeline.report.comparison import choose_baseline
from pipeline.report.data import Wanted, read_report
from pipeline.report.systems import System, spread

from .made_results import exact_bleu as bleu
from .made_results import markdown, part, recipe, result, row, scored

SINUSOIDAL, ROTARY, LEARNED = "transformer_sinusoidal_tiny", "roformer_tiny", "transformer_learned_tiny"


def labels(systems):
    return [str(system.label) for system in systems]


def names(made):
    return labels(made["systems"])


def test_mean_and_deviation_are_of_a_sample():
    assert spread([1.0, 2.0, 4.5]) == (2.5, statistics.stdev([1.0, 2.0, 4.5]))
    assert spread([3.0]) == (3.0, None) and spread([]) is None


def test_the_baseline_is_sinusoidal_in_the_size_of_the_others():
    run = {"run": {}, "training": {"updates": 1}}

    def chosen(*names, arch=None):
        found = choose_baseline(
            [System(one, variant, {1: run} if one[0] != "-" else {}) for one, variant in names], arch
        )
        return found and found.label

    sinusoidal = [("transformer_sinusoidal_big", ""), ("transformer_sinusoidal_base", "")]
    assert chosen(("roformer_base", ""), *sinusoidal) == ("transformer_sinusoidal_base", "")
    assert chosen(("roformer_big", ""), *sinusoidal) == ("transformer_sinusoidal_big", "")
    assert chosen(("a", "v"), ("b", ""), ("transformer_sinusoidal_base", "v")) == ("b", "")
    assert chosen(("roformer_base", ""), *sinusoidal, arch="roformer_base") == ("roformer_base", "")
    assert chosen(("-a", "")) is None


def test_scores_and_differences_are_means_over_seeds(tmp_path):
    for seed, own, other in ((1, 0.1, 0.3), (2, 0.2, 0.3)):
        result(tmp_path, ROTARY, seed, test=own)
        result(tmp_path, SINUSOIDAL, seed, test=other)
    result(tmp_path, LEARNED, 3, test=0.5)
    made = recipe(tmp_path)
    assert names(made) == [ROTARY, SINUSOIDAL, LEARNED]  # the best first
    own = [bleu("test", 0.1), bleu("test", 0.2)]
    assert row(made, ROTARY)["scores"]["test"]["sacrebleu"] == (statistics.fmean(own), statistics.stdev(own))
    found = row(made, ROTARY)["differences"]["test"]
    assert found.own == tuple(own) and found.better
    assert found.value == pytest.approx(statistics.fmean(own) - bleu("test", 0.3))
    assert row(made, LEARNED)["differences"]["test"].value == pytest.approx(bleu("test", 0.5) - bleu("test", 0.3))
    assert not made["answer"]["apart"] and made["answer"]["seeds"] == (1, 2)


def test_without_a_common_seed_single_trainings_are_not_compared(tmp_path):
    result(tmp_path, SINUSOIDAL, 1, test=0.3)
    result(tmp_path, LEARNED, 3, test=0.5)
    made = recipe(tmp_path)
    assert row(made, LEARNED)["differences"]["test"] is None and labels(made["answer"]["apart"]) == [LEARNED]


def test_the_answer_names_what_cannot_be_told_from_the_best(tmp_path):
    for arch, rate in ((SINUSOIDAL, 0.4), (ROTARY, 0.1), (LEARNED, 0.1)):
        result(tmp_path, arch, test=rate, parameters=900 if arch == LEARNED else 1000)
    answer = recipe(tmp_path)["answer"]
    assert answer["best"].label == (ROTARY, "") and labels(answer["close"]) == [LEARNED]
    assert answer["smallest"].label == (LEARNED, "")
    assert answer["worse"] == 1 and answer["difference"].significant
    said = markdown(tmp_path).split("##")[0]
    assert f"Best on `test`: `{ROTARY}`" in said and f"Not distinguishable from it: `{LEARNED}`." in said


def test_how_sure_is_the_middle_of_the_tests_samples(tmp_path):
    result(tmp_path, SINUSOIDAL, 1, test=0.4)
    result(tmp_path, ROTARY, 1, test=0.1)
    low, high = recipe(tmp_path)["answer"]["difference"].range
    assert 0 < low < bleu("test", 0.1) - bleu("test", 0.4) < high
    assert f"(significant over sentences alone, 1 seed, 95% interval +{low:.2f} to +{high:.2f})." in markdown(tmp_path)
    result(tmp_path, SINUSOIDAL, 2, test=0.4)
    result(tmp_path, ROTARY, 2, test=0.2)
    low, high = recipe(tmp_path)["answer"]["difference"].range
    said = markdown(tmp_path)
    assert f"2 seeds, 95% interval {low:+.2f} to {high:+.2f}).".replace("-", "\u2212") in said
    assert "sentences and trainings|variance:" in said and "|freedom:2|n:1000|seed:12345" in said


def test_over_seeds_each_test_set_has_variances_of_its_own(tmp_path):
    for seed, rate in ((1, 0.1), (2, 0.3)):
        for arch in (ROTARY, SINUSOIDAL):
            result(tmp_path, arch, seed, test=rate, later=0.2)
    said = markdown(tmp_path)
    assert said.count("- p on ") == 2 and "- p on test: `sentences and trainings|variance:" in said
    assert "- p on later: `sentences and trainings|variance:0.000|" in said


def test_one_system_is_not_called_the_best(tmp_path):
    result(tmp_path, SINUSOIDAL, test=0.4)
    said = markdown(tmp_path)
    assert "| baseline |" not in said and "| difference |" not in said
    said = said.split("##")[0]
    assert f"The only one on `test`: `{SINUSOIDAL}`" in said and "Best" not in said and "baseline" not in said
    assert "1 system, 1 seed." in said
    result(tmp_path, ROTARY, test=0.6)
    said = markdown(tmp_path).split("##")[0]
    assert f"Best on `test`: the baseline `{SINUSOIDAL}`" in said
    less = bleu("test", 0.4) - bleu("test", 0.6)
    assert (
        f"The next, `{ROTARY}`, has \u2212{less:.2f} (significant over sentences alone, 1 seed, 95% interval \u2212"
        in said
    )


def test_perplexity_ranks_from_below(tmp_path):
    for arch, variant, value in ((SINUSOIDAL, "", 20.0), (ROTARY, "", 15.5), (ROTARY, "x", 16.0)):
        tests = {"wiki": {"subset": "test", "sentences": 3, "settings": "", "scores": {"perplexity": {"score": value}}}}
        result(tmp_path, arch, variant=variant, more={"tests": tests})
    made = recipe(tmp_path)
    assert names(made) == [ROTARY, f"{ROTARY} (x)", SINUSOIDAL] and made["sets"][0]["best"] == 15.5
    found = row(made, ROTARY)["differences"]["wiki"]
    assert found.value == -4.5 and found.better and not found.significant and not made["answer"]["tested"]
    assert {one.verdict for one in made["claims"]} == {"in line"}
    text = markdown(tmp_path)
    assert "15.50 perplexity ↓" in text and "\u22124.50 (not tested, 1 seed)" in text
    assert "Not distinguishable" not in text and "- perplexity ↓: " in text


def test_what_was_not_run_says_so(tmp_path):
    result(tmp_path, SINUSOIDAL, test=0.3)
    result(tmp_path, ROTARY, 1, test=0.2)
    result(tmp_path, ROTARY, 2, updates=7, unfinished="killed at update 7 of 20")
    result(tmp_path, LEARNED, 1, "x", updates=0, unfinished="out of | memory")
    made = recipe(tmp_path, archs=[ROTARY, LEARNED], seeds=[1, 2])
    assert row(made, ROTARY)["seeds"] == "1; 2 not finished" and row(made, LEARNED)["seeds"] == "1, 2 not run"
    text = markdown(tmp_path, archs=[ROTARY, LEARNED], seeds=[1, 2])
    assert "`small`: 2 systems, 1 seed each, 1 not run, 2 runs not finished." in text
    assert f"| `{LEARNED}` (x) | 1 | 0 of 20 | out of \\| memory |" in part(text, "Runs that did not finish")
    assert "| 1; 2 not finished |" in text and "| 1, 2 not run |" in text and "| 0 |" not in text


def test_a_recipe_of_which_nothing_finished_has_a_section(tmp_path):
    result(tmp_path, ROTARY, updates=7, unfinished="killed")
    text = markdown(tmp_path)
    assert "- `small`: 1 run not finished." in text and "7 of 20" in part(text, "Runs that did not finish")
    assert "### Scores" not in text and "### Costs" not in text and "### Commands" in text


def test_the_validation_set_never_ranks(tmp_path):
    result(tmp_path, SINUSOIDAL, rates={"val": 0.1, "test": 0.3, "test_x2": 0.3})
    result(tmp_path, ROTARY, rates={"val": 0.4, "test": 0.1, "test_x2": 0.1})
    made = recipe(tmp_path)
    assert [(one["name"], one["validation"]) for one in made["sets"]] == [
        ("test", False),
        ("val", True),
        ("test_x2", False),
    ]
    assert made["answer"]["best"].label == (ROTARY, "") and not made["sets"][1]["lengths"]


def test_what_is_kept_on_longer_sentences_is_of_the_same_run(tmp_path):
    result(tmp_path, SINUSOIDAL, 1, rates={"test": 0.1, "test_x4": 0.5, "test_x2": 0.3})
    result(tmp_path, SINUSOIDAL, 2, rates={"test": 0.2, "test_x4": 0.4, "test_x2": 0.3})
    shares = [100 * bleu("test_x4", high) / bleu("test", low) for low, high in ((0.1, 0.5), (0.2, 0.4))]
    made = recipe(tmp_path)
    assert row(made, SINUSOIDAL)["kept"]["test_x4"] == pytest.approx(statistics.fmean(shares))
    words = scored("test_x4", 0.1)["statistics"]["source_words"]
    found = made["sets"][2]
    assert (found["name"], found["joined"], found["words"]) == ("test_x4", 4, (sum(words) / 60, max(words)))


def test_variants_are_decided_by_validation(tmp_path):
    result(tmp_path, ROTARY, rates={"val": 0.4, "test": 0.1})
    result(tmp_path, ROTARY, variant="base500", rates={"val": 0.1, "test": 0.4}, flags="--rope-base 500")
    variants = recipe(tmp_path)["variants"]
    assert variants["changes"] == ["--rope-base 500"] and variants["verdicts"] == [("better", [(ROTARY, "base500")])]
    (found,) = variants["differences"]["val"]
    assert found.means == (bleu("val", 0.4), bleu("val", 0.1)) and found.better
    assert not variants["differences"]["test"][0].better  # the test set says otherwise, and does not decide
    assert f"Better there: `{ROTARY}` (base500)." in part(markdown(tmp_path), "Variants")


def test_a_variant_is_beside_the_plain_system_with_as_many_updates(tmp_path):
    for updates, rate in ((20, 0.1), (40, 0.3)):
        result(tmp_path, ROTARY, updates, wanted=updates, updates=updates, test=rate)
    result(tmp_path, ROTARY, 40, "half", "--rope-layout half", wanted=40, updates=40, test=0.3)
    variants = recipe(tmp_path)["variants"]
    assert variants["changes"] == ["--rope-layout half"]
    assert variants["differences"]["test"][0].value == 0.0


def test_seeds_of_other_settings_are_systems_of_their_own(tmp_path):
    result(tmp_path, ROTARY, 1, test=0.1)
    result(tmp_path, ROTARY, 2, test=0.1, updates=7, wanted=7)
    result(tmp_path, LEARNED, 1, test=0.1)
    result(tmp_path, LEARNED, 2, test=0.1, flags="--dropout 0.5")
    made = recipe(tmp_path, archs=[ROTARY, LEARNED])
    assert sorted(names(made)) == [
        f"{ROTARY} (20 updates)",
        f"{ROTARY} (7 updates)",
        f"{LEARNED} (settings 1)",
        f"{LEARNED} (settings 2)",
    ]
    report = markdown(tmp_path)
    assert f"| `{ROTARY}` (7 updates) | 2 |" in report and f"| `{LEARNED}` (settings 2) | 2 |" in report


def test_seeds_that_stop_early_are_one_system(tmp_path):
    for seed, updates in ((1, 12), (2, 15)):
        result(tmp_path, ROTARY, seed, test=0.1, updates=updates)
        result(tmp_path, LEARNED, seed, test=0.4, updates=updates + 2)
    made = recipe(tmp_path, archs=[ROTARY, LEARNED])
    assert sorted(names(made)) == [ROTARY, LEARNED] and row(made, ROTARY)["seeds"] == "1, 2"
    assert made["systems"][0].average("updates") == 13.5


def test_published_figures_stand_beside_the_systems_of_their_test_set(tmp_path):
    result(tmp_path, "roformer_base", rates={"test": 0.4}, more={"recipe": "wmt14_en_de"})
    assert not recipe(tmp_path, "wmt14_en_de")["figures"]
    result(tmp_path, "roformer_base", rates={"newstest2014": 0.4}, more={"recipe": "wmt14_en_de"})
    report = read_report([tmp_path], Wanted())
    assert [one["name"] for one in report.recipes] == ["wmt14_en_de", "wmt14_en_de_shaw"]  # one table of a paper
    assert {arch: figure[0] for arch, figure in report.recipes[0]["figures"].items()} == {
        "transformer_sinusoidal_base": 27.3,
        "roformer_base": 27.5,
    }
    assert names(report.recipes[0]) == ["roformer_base", "transformer_sinusoidal_base"]


def test_nothing_to_report_is_refused(tmp_path):
    with pytest.raises(Failure, match=r"no result file that can be used in .*: run scripts/reproduce\.sh first"):
        recipe(tmp_path)
    result(tmp_path, ROTARY)
    with pytest.raises(Failure, match=r"no result of recipe 'x' in .*; recipes there: small"):
        recipe(tmp_path, recipe="x")
    with pytest.raises(Failure, match="the baseline 'x' has no result"):
        recipe(tmp_path, baseline="x")
