"""Blocks between markers in README.md and docs/: each figure there is that of the result files."""

import re
from importlib.metadata import version

import pytest

from pipeline.command import Failure
from pipeline.report.build import to_markdown
from pipeline.report.pages import BLOCK, fill, project_pages
from pipeline.report.pictures import draw
from pipeline.report.recipe import read_report

from ...commands import ROOT
from .made_results import ROTARY, SINUSOIDAL, result

CLIP = re.compile(r"\bp[0-9a-f]{10}\b")
"""The name of a clip path in a picture: a hash of sums, which Python rounds in another way from 3.12 on."""


@pytest.fixture(scope="module")
def committed():
    return read_report([ROOT / "results"])


@pytest.mark.parametrize("page", project_pages(), ids=lambda page: page.name)
def test_the_tables_of_a_page_are_those_of_the_committed_results(committed, page):
    for recipe in committed.recipes:
        draw(recipe) if not recipe.pictures and recipe.name == "multi30k_bf16" else None
    files = fill(page, committed)
    assert files.pop(page) == page.read_text(encoding="utf-8")
    known = re.search(r"^matplotlib==(\S+);.*>=", (ROOT / "constraints.txt").read_text(), re.MULTILINE)[1]
    for path, picture in files.items():
        kept, drawn = (CLIP.sub("", each) for each in (path.read_text(encoding="utf-8"), picture))
        assert kept == drawn or version("matplotlib") != known


def test_the_committed_report_is_that_of_the_committed_results(committed):
    assert (ROOT / "results/report/report.md").read_text(encoding="utf-8") == to_markdown(committed)
    assert not committed.broken


def test_no_score_stands_outside_of_a_block():
    prose = BLOCK.sub("", (ROOT / "docs/results.md").read_text(encoding="utf-8"))
    of_papers = re.findall(r"\d\d\.\d\d", prose)
    assert not of_papers and not re.search(r"\bp [<0]", prose.replace("p below 0.05", ""))


@pytest.fixture
def report(tmp_path):
    for arch, rate in ((SINUSOIDAL, 0.3), (ROTARY, 0.1), ("tupe_a_tiny", 0.1)):
        result(tmp_path, arch, test=rate, test_x4=0.3)
    return read_report([tmp_path])


def filled(tmp_path, report, request, content=""):
    page = tmp_path / "page.md"
    page.write_text(f"a\n\n<!-- report: {request} -->\n{content}<!-- end -->\n\nb\n")
    made = fill(page, report)[page]
    assert made.startswith(f"a\n\n<!-- report: {request} -->\n") and made.endswith("<!-- end -->\n\nb\n")
    page.write_text(made)
    assert fill(page, report)[page] == made, "again"
    return made.splitlines()[3:-3]


def test_a_block_has_the_columns_that_it_asks_for(tmp_path, report):
    head, _, *rows = filled(tmp_path, report, "scores small plain: seeds, test, test_x4", "old\n")
    assert head.count("|") == 5 and len(rows) == 3
    for wrong, name in (("scores small: test_x8", "test_x8"), ("cards smal", "smal"), ("score small", "score")):
        with pytest.raises(Failure, match=f"page.md: a block names '{name}'"):
            filled(tmp_path, report, wrong, "old\n")


def test_a_table_without_variants_has_its_best_in_bold(tmp_path):
    result(tmp_path, SINUSOIDAL, test=0.3)
    result(tmp_path, ROTARY, test=0.2)
    result(tmp_path, ROTARY, variant="wider", flags="--x", test=0.1)
    *_, first, second = filled(tmp_path, read_report([tmp_path]), "scores small plain: test")
    assert "`roformer` | **" in first and "**" not in second


def test_a_row_says_which_of_two_systems_is_better_and_is_refused_if_that_is_wrong(tmp_path, report):
    true = "|  | systems | old | p |\n| --- | --- | ---: | ---: |\n"
    true += "| RoPE *beats* it | `roformer` > `transformer_sinusoidal` | old | old |\n"
    true += "| but not there, | `roformer` ≈ `transformer_sinusoidal` on `x4` | | |\n"
    true += "| nor TUPE. | `roformer` ≈ `tupe_a` | | |\n"
    rows = filled(tmp_path, report, "claims small", true)[2:]
    assert [re.findall(r"<?\d\.\d{3}", row)[-1] for row in rows[:1]] == ["<0.001"]
    assert [row.split(" | ")[0] for row in rows] == ["| RoPE *beats* it", "| but not there,", "| nor TUPE."]
    for relation in "≈<":
        with pytest.raises(Failure, match=r"page.md: 'RoPE \*beats\* it' does not hold"):
            filled(tmp_path, report, "claims small", true.replace(" > ", f" {relation} "))
    with pytest.raises(Failure, match=r"page.md: a block names 'x8'"):
        filled(tmp_path, report, "claims small", true.replace("`x4`", "`x8`"))


def test_a_case_has_the_figures_of_its_evidence_and_says_if_there_are_none(tmp_path, report):
    old = "| case | encoding | evidence | figure | p |\n| --- | --- | --- | --- | --- |\n"
    old += "| text | `rope` | `roformer` > `transformer_sinusoidal` on `x4` in [`small`](a.md) | 1.00 | |\n"
    old += "| export | `rope` | see [there](b.md) | | |\n| books | `rope` | none yet | 1.00 | 0.001 |\n"
    true = old.replace("> `transformer_sinusoidal`", "≈ `transformer_sinusoidal`")
    rows = [row.split(" | ") for row in filled(tmp_path, report, "cases", true)[2:]]
    assert rows[0][2].endswith("[`small`](a.md)") and "to" in rows[0][3]
    assert rows[1][2:] == ["see [there](b.md)", "", " |"]
    assert rows[2][2:] == ["none yet", "not measured", " |"]
    with pytest.raises(Failure, match=r"page.md: 'text' does not hold"):
        filled(tmp_path, report, "cases", old)


def test_a_table_tells_what_one_seed_cannot_and_which_scores_have_fewer_seeds(tmp_path):
    for arch, rate in ((ROTARY, 0.1), (SINUSOIDAL, 0.4)):
        result(tmp_path, arch, 1, test=rate, test_x4=rate)
    (row, *_) = filled(tmp_path, read_report([tmp_path]), "scores small: test_x4, p")[2:]
    assert row.endswith("(text alone) |") and "** |" in row
    result(tmp_path, ROTARY, 2, test=0.2)
    (row, *_) = filled(tmp_path, read_report([tmp_path]), "scores small: test_x4, p")[2:]
    assert "alone" not in row and "** (1) |" in row
