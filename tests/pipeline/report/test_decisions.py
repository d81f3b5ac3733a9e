"""What a reader of the report decides by: the first table, the papers' claims, variants, longer sentences."""

import json

import pytest

from pipeline.report.claims import CLAIMS, Claim, check
from pipeline.report.claims_table import TITLE
from pipeline.report.glance import speed
from pipeline.report.longer import kept
from pipeline.report.systems import group
from pipeline.results.file import ResultError, read_results

from .made_results import markdown, part, result, scored, table

SINUSOIDAL, ROTARY, LEARNED = "transformer_sinusoidal_tiny", "roformer_tiny", "transformer_learned_tiny"
MEASURED = {"threads": "1", "jobs": "2"}


def systems(folder):
    return {system.name: system for system in group(read_results([folder]))["small"]}


def bleu(name, rate):
    return scored(name, rate)["scores"]["sacrebleu"]["score"]


def test_the_validation_set_never_ranks_and_comes_last(tmp_path):
    result(tmp_path, SINUSOIDAL, rates={"val": 0.1, "test": 0.3, "test_x2": 0.3})
    result(tmp_path, ROTARY, rates={"val": 0.4, "test": 0.1, "test_x2": 0.1})
    text = markdown(tmp_path)
    headings = [line for line in text.splitlines() if line.startswith("### Scores")]
    assert [heading.split("`")[1] for heading in headings] == ["test", "test_x2", "val"]
    assert headings[-1] == "### Scores on `val` (validation, 60 sentences)"
    assert f"Best on `test`: `{ROTARY}`" in text.splitlines()[2]
    assert "BLEU by source length on `val`" not in text
    glance = table(text, "At a glance")
    assert glance["header"][3] == "`val`" and glance[f"`{ROTARY}`"][2] == f"{bleu('val', 0.4):.2f}"


def test_no_paper_has_figures_beside_the_validation_set(tmp_path):
    path = result(tmp_path, "roformer_base", rates={"val": 0.4, "test": 0.1})
    name = '"newstest2014"'
    text = path.read_text().replace('"small"', '"wmt14_en_de"').replace('"test":', f"{name}:")
    path.write_text(text)
    assert "27.5" in part(markdown(tmp_path), "Scores on `newstest2014`")
    path.write_text(path.read_text().replace(name, '"test"').replace('"val"', name))
    assert "27.5" not in part(markdown(tmp_path), "Scores on `newstest2014` (validation")


def test_the_first_table_is_ordered_by_the_first_test_set_and_has_the_differences(tmp_path):
    rates = {SINUSOIDAL: 0.3, ROTARY: 0.1, LEARNED: 0.5}
    for arch, rate in rates.items():
        result(tmp_path, arch, rates={"test": rate}, parameters=1000 + 500 * (arch == ROTARY))
    text = markdown(tmp_path, archs=["tupe_a_tiny"])
    found = table(text, "At a glance")
    assert list(found) == ["header", f"`{ROTARY}`", f"`{SINUSOIDAL}`", f"`{LEARNED}`"]
    difference = bleu("test", 0.1) - bleu("test", 0.3)
    assert found[f"`{ROTARY}`"] == [f"**{bleu('test', 0.1):.2f}**", f"+{difference:.2f} \\*", "1,500"]
    assert found[f"`{SINUSOIDAL}`"][1] == "baseline"
    said = part(text, "At a glance")
    assert "Each other one is significantly worse" in said
    assert f"`{ROTARY}` has 1,500 parameters, 500 (50.0%) more than the baseline `{SINUSOIDAL}`." in said
    assert "not the differences between trainings, of which one seed each tells nothing" in said


def test_systems_that_the_bootstrap_cannot_tell_from_the_best_are_named(tmp_path):
    for arch, rate in ((SINUSOIDAL, 0.4), (ROTARY, 0.1), (LEARNED, 0.1)):
        for seed in (1, 2):
            result(tmp_path, arch, seed, rates={"test": rate}, parameters=900 if arch == LEARNED else 1000)
    result(tmp_path, "tupe_a_tiny", 3, rates={"test": 0.5})
    said = part(markdown(tmp_path), "At a glance")
    assert f"Not distinguishable from it, by paired bootstrap against it: `{LEARNED}`." in said
    assert f"The smallest of these is `{LEARNED}` with 900 parameters." in said
    assert "The other one is significantly worse" in said
    assert "Without a common seed and so not compared with it: `tupe_a_tiny`." in said
    assert "which the deviation over 2 seeds shows; where there is one seed, nothing does." in said


def test_a_system_that_is_better_with_the_common_seeds_is_not_called_worse(tmp_path):
    for seed, rate in ((1, 0.4), (2, 0.0)):
        result(tmp_path, SINUSOIDAL, seed, rates={"test": rate})
    result(tmp_path, ROTARY, 1, rates={"test": 0.2})  # of a sweep that is not at its end
    result(tmp_path, LEARNED, 1, rates={"test": 0.6})
    said = part(markdown(tmp_path), "At a glance")
    assert said.startswith(f"\n\nBest on `test`: `{SINUSOIDAL}`")
    assert f"Significantly better than it over their common seeds, though not over all: `{ROTARY}`." in said
    assert "The other one is significantly worse" in said


@pytest.mark.parametrize(
    ("other", "relative"),
    [
        ({}, "0.80"),
        ({"machine": "y"}, ""),
        ({"measured": {"threads": "1", "jobs": "1"}}, ""),
        ({"measured": {"threads": "2", "jobs": "2"}}, ""),
        ({"measured": {"threads": "1"}}, ""),
        ({"speed": None}, ""),
    ],
)
def test_speeds_are_compared_only_if_they_were_measured_alike(tmp_path, other, relative):
    result(tmp_path, SINUSOIDAL, test=0.3, measured=MEASURED)
    result(tmp_path, LEARNED, test=0.4, measured=MEASURED)
    result(tmp_path, ROTARY, test=0.1, **{"measured": MEASURED, "speed": 80, **other})
    text = markdown(tmp_path)
    found = table(text, "At a glance")
    assert found["header"][-1] == "speed" and found[f"`{ROTARY}`"][-1] == relative
    assert found[f"`{LEARNED}`"][-1] == found[f"`{SINUSOIDAL}`"][-1] == "1.00"
    assert ("trains at 0.80 of its speed" in text) == (relative == "0.80")


@pytest.mark.parametrize(("flags", "measured"), [("", "1.25"), ("--amp", "")])
def test_the_cost_of_a_step_is_that_of_a_benchmark_with_both(tmp_path, flags, measured):
    result(tmp_path, SINUSOIDAL, test=0.3)
    result(tmp_path, ROTARY, test=0.1, flags=flags)
    result(tmp_path, ROTARY, variant="half", flags="--rope-layout half", test=0.2)
    result(tmp_path, LEARNED, test=0.4)
    seconds = {"one": {ROTARY: 9.0, LEARNED: 1.0}, "two": {SINUSOIDAL: 2.0, ROTARY: 2.5}}
    for name, steps in seconds.items():
        rows = [
            {"candidate": arch, "precision": precision, "seconds": value, "times as fast": 1, "quartiles": ""}
            for arch, value in steps.items()
            for precision, value in (("bf16", 7.0), ("fp32", value))
        ]
        rows = [{**row, "share of peak": ""} for row in rows]
        (tmp_path / f"benchmark-{name}.json").write_text(json.dumps({"rows": rows, "machine": {}}))
    text = markdown(tmp_path)
    found = table(text, "At a glance")
    assert ("its training step takes 1.25 times as long" in text) == bool(measured)
    if measured:
        rows = (f"`{ROTARY}`", f"`{ROTARY}` (half)", f"`{LEARNED}`", f"`{SINUSOIDAL}`")
        assert [found[row][-1] for row in rows] == [measured, "", "", "1.00"] and found["header"][-1] == "step"
    else:
        assert "step" not in found["header"]


def test_without_records_of_the_conditions_there_is_no_speed(tmp_path):
    for arch in (SINUSOIDAL, ROTARY):
        result(tmp_path, arch, test=0.3, measured={"threads": "1"})
    found = systems(tmp_path)
    assert speed(found[ROTARY], found[SINUSOIDAL]) is None
    assert "speed" not in table(markdown(tmp_path), "At a glance")["header"]


@pytest.mark.parametrize(
    ("nll", "falling"), [([3.0, 2.5, 2.0, 1.99], False), ([3.0, 2.5, 2.0, 1.98], True), ([2.0], False), ([], False)]
)
def test_a_training_that_ended_early_is_named(tmp_path, nll, falling):
    curve = {"updates": [50, 70, 80, 100][: len(nll)], "seconds": [1] * len(nll), "nll": nll}
    for arch in (SINUSOIDAL, ROTARY):
        path = result(tmp_path, arch, test=0.3)
        made = json.loads(path.read_text())
        made["curve"]["valid"] = curve if arch == ROTARY else {"updates": [], "seconds": [], "nll": []}
        path.write_text(json.dumps(made))
    said = part(markdown(tmp_path), "At a glance")
    assert ("the validation loss of 1 of 2 systems still fell" in said) == falling


def test_what_is_kept_on_longer_sentences_is_of_the_same_run(tmp_path):
    result(tmp_path, SINUSOIDAL, 1, rates={"test": 0.1, "test_x4": 0.5, "test_x2": 0.3})
    result(tmp_path, SINUSOIDAL, 2, rates={"test": 0.2, "test_x4": 0.4, "test_x2": 0.3})
    result(tmp_path, ROTARY, 1, rates={"test": 0.3, "test_x4": 0.3, "test_x2": 0.3})
    shares = [100 * bleu("test_x4", high) / bleu("test", low) for low, high in ((0.1, 0.5), (0.2, 0.4))]
    found = systems(tmp_path)
    assert list(kept(found[SINUSOIDAL], "test", "test_x4").values()) == pytest.approx(shares)
    text = markdown(tmp_path)
    rows = table(text, "Longer sentences")
    assert rows["header"] == ["system", "`test`", "`test_x2`", "kept", "`test_x4`", "kept"]
    assert list(rows)[1:] == [f"`{ROTARY}`", f"`{SINUSOIDAL}`"]  # the one that is worse on test keeps more
    assert rows[f"`{SINUSOIDAL}`"][-1] == f"{sum(shares) / 2:.1f}%"
    said = part(text, "Longer sentences")
    assert f"On `test_x4` `{ROTARY}` keeps most" in said and f"and `{SINUSOIDAL}` least" in said
    lengths = scored("test_x4", 0.1)["statistics"]["source_words"]
    assert f"`test_x4` {sum(lengths) / 60:.1f} and {max(lengths)}." in said
    assert "`test_x4` is the text of `test`, 4 sentences in one." in said


def test_a_longer_set_of_another_text_says_so_and_any_other_set_is_none(tmp_path):
    result(tmp_path, SINUSOIDAL, rates={"test": 0.1, "test_long": 0.5, "val": 0.1})
    assert "`test_long` is another text than `test`" in part(markdown(tmp_path), "Longer sentences")
    result(tmp_path, SINUSOIDAL, rates={"test": 0.1, "test_2017": 0.5})
    assert not part(markdown(tmp_path), "Longer sentences")


def test_a_variant_stands_beside_its_architecture_over_common_seeds(tmp_path):
    result(tmp_path, ROTARY, 1, rates={"test": 0.2, "val": 0.4}, flags="--rope-base 10000")
    result(tmp_path, ROTARY, 2, rates={"test": 0.5, "val": 0.5}, flags="--rope-base 10000")
    result(tmp_path, ROTARY, 1, "base500", rates={"test": 0.3, "val": 0.1}, flags="--rope-base 500")
    result(tmp_path, ROTARY, 1, "same", rates={"test": 0.2, "val": 0.4})
    text = markdown(tmp_path)
    rows = table(text, "Variants")
    row = rows[f"`{ROTARY}` (base500)"]
    assert rows["header"][2:4] == ["without, `val`", "with, `val`"]
    assert row[:3] == ["`--rope-base 500`", f"{bleu('val', 0.4):.2f}", f"{bleu('val', 0.1):.2f}"]
    assert row[3] == f"+{bleu('val', 0.1) - bleu('val', 0.4):.2f}" and row[4].endswith("\\*")
    assert row[7].startswith("\u2212")  # the test set says otherwise, and does not decide
    assert f"better than without: `{ROTARY}` (base500); neither: `{ROTARY}` (same)." in part(text, "Variants")


def test_without_a_validation_set_variants_are_not_decided(tmp_path):
    result(tmp_path, ROTARY, test=0.3)
    result(tmp_path, ROTARY, variant="half", test=0.1, flags="--rope-layout half")
    text = markdown(tmp_path)
    assert table(text, "Variants")["header"][2:] == ["without, `test`", "with, `test`", "difference", "p"]
    assert "No validation set was scored" in part(text, "Variants") and "By validation" not in text
    result(tmp_path / "other", LEARNED, variant="x", test=0.1)
    assert not part(markdown(tmp_path / "other"), "Variants")  # nothing to stand beside


@pytest.mark.parametrize(
    ("rate", "verdict", "equal"),
    [(0.1, "agrees", "contradicts"), (0.3, "open", "agrees"), (0.5,) + ("contradicts",) * 2],
)
def test_verdicts_on_claims_are_by_significance_and_direction(tmp_path, monkeypatch, rate, verdict, equal):
    result(tmp_path, SINUSOIDAL, test=0.3)
    result(tmp_path, ROTARY, test=rate)
    result(tmp_path, "transformer_sinusoidal_base", test=0.3)
    result(tmp_path, "roformer_linear_tiny", test=0.1)
    pair = ("roformer", "transformer_sinusoidal")
    both = (Claim("A", "better", "", *pair), Claim("B", "equal", "", *pair, equal=True))
    longest = Claim("C", "longer", "", *pair, longest=True)
    monkeypatch.setattr("pipeline.report.claims.CLAIMS", (*both, longest))
    found = check(list(systems(tmp_path).values()), "test", None)  # at the one size of both, and not of longer sets
    assert [(each.claim.paper, each.verdict) for each in found] == [("A", verdict), ("B", equal)]
    assert {(each.better.arch, each.than.arch) for each in found} == {(ROTARY, SINUSOIDAL)}
    text = markdown(tmp_path)
    assert table(text, TITLE)["A"][1].strip("*") == verdict
    contradicted = [verdict, equal].count("contradicts")
    assert f"{contradicted} contradicted" in part(text, "At a glance")
    assert part(text, "At a glance").count("Contradicted:") == contradicted


def test_claims_about_longer_input_are_tested_on_the_longest_set(tmp_path):
    result(tmp_path, SINUSOIDAL, rates={"test": 0.1, "test_x4": 0.5, "test_x2": 0.2})
    result(tmp_path, "transformer_alibi_tiny", rates={"test": 0.3, "test_x4": 0.2, "test_x2": 0.5})
    found = table(markdown(tmp_path), TITLE)["Press et al. 2022"]
    shares = [
        f"{100 * bleu('test_x4', longer) / bleu('test', first):.1f}%" for first, longer in ((0.3, 0.2), (0.1, 0.5))
    ]
    assert found[1] == "agrees" and found[3] == f"`test_x4` (kept: {shares[0]} against {shares[1]})"


def test_what_the_papers_say_of_each_other_is_tested_too(tmp_path):
    for arch, rate in ((ROTARY, 0.1), (LEARNED, 0.3), ("transformer_t5_tiny", 0.3), ("transformer_alibi_tiny", 0.4)):
        result(tmp_path, arch, rates={"test": rate, "test_long": rate})
    text = markdown(tmp_path)
    assert "3 borne out, 1 contradicted, 0 open" in part(text, "At a glance")
    assert "Contradicted: ALiBi extrapolates to longer input better than rotary positions" in part(text, "At a glance")
    assert "15.78 against 16.59" in part(text, TITLE) and "15.78 against 16.46" in part(text, TITLE)


def test_the_claim_about_the_reset_is_tested_by_the_variant_without_it(tmp_path):
    for variant, rate, flags in (("", 0.1, ""), ("off", 0.3, "--tupe-no-reset"), ("x", 0.2, "--tupe-no-reset --lr 1")):
        result(tmp_path, "tupe_a_tiny", variant=variant, flags=flags, test=rate)
    result(tmp_path, "tupe_r_tiny", variant="off", flags="--tupe-no-reset", test=0.5)
    found = [line for line in part(markdown(tmp_path), TITLE).splitlines() if "reset" in line]
    assert len(found) == 1 and "| agrees | `tupe_a_tiny` minus `tupe_a_tiny` (off) | `test` |" in found[0]


def test_variants_say_nothing_about_claims(tmp_path):
    result(tmp_path, SINUSOIDAL, test=0.3)
    result(tmp_path, ROTARY, variant="half", test=0.1)
    assert not part(markdown(tmp_path), TITLE)


def test_claims_are_about_families_that_exist():
    architectures = pytest.importorskip("fairseq_rope.architectures")
    assert {family for claim in CLAIMS for family in (claim.better, claim.than)} <= set(architectures.FAMILIES)


def test_runs_that_did_not_finish_are_listed_and_scored_nowhere(tmp_path):
    result(tmp_path, SINUSOIDAL, test=0.3)
    result(tmp_path, ROTARY, 1, test=0.2)
    result(tmp_path, ROTARY, 2, updates=7, unfinished="killed at update 7 of 20")
    result(tmp_path, LEARNED, 1, "x", updates=0, unfinished="out of | memory")
    text = markdown(tmp_path, archs=[ROTARY, LEARNED], seeds=[1, 2])
    rows = table(text, "Runs that did not finish")
    assert rows[f"`{ROTARY}`"] == ["2", "7 of 20", "killed at update 7 of 20"]
    assert f"| `{LEARNED}` (x) | 1 | 0 of 20 | out of \\| memory |" in text
    assert table(text, "Scores on `test`")[f"`{ROTARY}`"][0] == "1; 2 not finished"
    assert table(text, "Scores on `test`")[f"`{LEARNED}`"][0] == "not run"  # without the variant
    assert text.count(f"`{LEARNED}` (x)") == 1
    assert f"# {ROTARY}, seed 2, did not finish: commit not recorded\nscripts/train.sh --arch {ROTARY} --seed 2" in text
    assert "2 systems, 1 seed each, 1 not run, 2 runs not finished" in text


def test_a_recipe_of_which_nothing_finished_has_a_section(tmp_path):
    result(tmp_path, ROTARY, updates=7, unfinished="killed")
    text = markdown(tmp_path)
    assert "- `small`: 1 run not finished." in text and "## Recipe `small`" in text
    assert table(text, "Runs that did not finish")[f"`{ROTARY}`"][1] == "7 of 20"
    assert "### Scores" not in text and "### Costs" not in text and "### Commands" in text
    assert table(markdown(tmp_path, archs=[ROTARY]), "Scores on `test`")[f"`{ROTARY}`"][0] == "not finished"


def test_a_run_cannot_be_finished_and_not(tmp_path):
    result(tmp_path / "a", ROTARY, updates=7, unfinished="killed")
    result(tmp_path / "b", ROTARY, test=0.1)
    with pytest.raises(ResultError, match="are the same run"):
        group(read_results([tmp_path / "a", tmp_path / "b"]))
