"""The papers' claims: which can be tested, and the verdicts."""

import pytest

from pipeline.report.claims import check, papers
from pipeline.report.comparison import Comparison
from pipeline.report.systems import group
from pipeline.results.file import read_results

from .made_results import markdown, part, result

SINUSOIDAL, ROTARY, LEARNED = "transformer_sinusoidal_tiny", "roformer_tiny", "transformer_learned_tiny"


def checked(folder, claims, first="test", longest=None):
    systems = group([made for _, made in read_results([folder])[0]])
    return check(claims, systems, first, longest, Comparison(systems))


def claim(better, than, **more):
    return {"paper": "A", "text": "t", "measured": "", "systems": [better, than], **more}


@pytest.mark.parametrize(
    ("rate", "verdict", "equal"),
    [(0.1, "agrees", "contradicts"), (0.3, "open", "agrees"), (0.5,) + ("contradicts",) * 2],
)
@pytest.mark.parametrize("several", [True, False])
def test_verdicts_are_by_significance_and_direction(tmp_path, several, rate, verdict, equal):
    """Their words are weaker where nothing shows how much trainings differ."""
    if several:
        result(tmp_path, SINUSOIDAL, 2, test=0.3)
    else:
        weaker = {"agrees": "in line", "contradicts": "against"}
        verdict, equal = (weaker.get(each, each) for each in (verdict, equal))
    result(tmp_path, SINUSOIDAL, test=0.3)
    result(tmp_path, ROTARY, test=rate)
    result(tmp_path, ROTARY, variant="half", test=0.1)
    result(tmp_path, "transformer_sinusoidal_base", test=0.3)
    result(tmp_path, "roformer_linear_tiny", test=0.1)
    pair = ("roformer", "transformer_sinusoidal")
    found = checked(tmp_path, [claim(*pair), claim(*pair, equal=True), claim(*pair, longest=True)])
    assert [each.verdict for each in found] == [verdict, equal]  # at the one size of both, and not of longer sets
    assert {(each.better, each.than) for each in found} == {((ROTARY, ""), (SINUSOIDAL, ""))}


def test_claims_about_longer_input_are_tested_on_the_longest_set(tmp_path):
    result(tmp_path, SINUSOIDAL, rates={"test": 0.1, "test_x4": 0.5, "test_x2": 0.2})
    result(tmp_path, "transformer_alibi_tiny", rates={"test": 0.3, "test_x4": 0.2, "test_x2": 0.5})
    said = part(markdown(tmp_path), "The papers' claims")
    assert "- `small`: 1 in line." in said
    (line,) = [line for line in said.splitlines() if "Press et al. 2022" in line]
    assert "`transformer_alibi` − `transformer_sinusoidal` | in line +" in line  # noqa: RUF001


def test_the_claim_about_the_reset_is_tested_by_the_variant_without_it(tmp_path):
    for variant, rate, flags in (("", 0.1, ""), ("off", 0.3, "--tupe-no-reset"), ("x", 0.2, "--tupe-no-reset --lr 1")):
        result(tmp_path, "tupe_a_tiny", variant=variant, flags=flags, test=rate)
    result(tmp_path, "tupe_r_tiny", variant="off", flags="--tupe-no-reset", test=0.5)
    (found,) = checked(tmp_path, papers()["claim"])
    assert (found.better, found.than) == (("tupe_a_tiny", ""), ("tupe_a_tiny", "off")) and found.verdict == "in line"


def test_a_claim_is_about_trainings_that_are_alike(tmp_path):
    """Where systems have several numbers of updates or settings, those that are most alike make a pair."""
    for flags, rates in (("", (0.1, 0.3)), ("--dropout 0.3", (0.3, 0.1))):
        result(tmp_path, ROTARY, 1 + bool(flags), flags=flags, test=rates[0])
        result(tmp_path, SINUSOIDAL, 1 + bool(flags), flags=flags, test=rates[1])
    result(tmp_path, ROTARY, 3, wanted=40, updates=40, test=0.1)  # has no counterpart
    found = checked(tmp_path, [claim("roformer", "transformer_sinusoidal")])
    assert [(each.better.variant, each.than.variant, each.verdict) for each in found] == [
        ("settings 1", "settings 1", "in line"),
        ("settings 3", "settings 2", "against"),
    ]
    said = part(markdown(tmp_path), "The papers' claims")
    assert f"| `{ROTARY}` (settings 1) in line" in said and f"; `{ROTARY}` (settings 3) **against**" in said


def test_the_claims_are_complete_and_about_families_that_exist():
    architectures = pytest.importorskip("fairseq_rope.architectures")
    claims = papers()["claim"]
    assert len(claims) == 18 and {family for each in claims for family in each["systems"]} <= set(
        architectures.FAMILIES
    )
    rows = {row.split()[0] for table in papers()["elsewhere"] for row in table["rows"]}
    assert rows <= set(architectures.FAMILIES)
    assert all({"paper", "text", "measured", "systems"} <= set(each) for each in claims)
    assert all({*each} <= {"paper", "text", "measured", "systems", "equal", "longest", "flag"} for each in claims)
