"""The report as Markdown and HTML: one file that needs nothing else, the same bytes, the answer first."""

import xml.etree.ElementTree as ElementTree
from base64 import b64encode

import pytest

from pipeline.report.build import answers, to_html, to_markdown
from pipeline.report.pictures import draw
from pipeline.report.recipe import read_report
from pipeline.results import write_translations

from .made_results import ROTARY, SINUSOIDAL, model, result, tuned


def test_the_page_has_the_answer_then_a_picture_then_the_table_and_folds_how_to_read_it(tmp_path):
    pytest.importorskip("matplotlib")
    for arch, rate in ((SINUSOIDAL, 0.3), (ROTARY, 0.1)):
        path = result(tmp_path, arch, test=rate)
    write_translations([["a <b> *c*", "x\ty", "z"]], path.with_suffix(".tsv"))
    path.with_suffix(".png").write_bytes(b"a heat map")
    report = read_report([tmp_path])
    draw(report.recipes[0])
    root = ElementTree.fromstring(to_html(report))  # well-formed
    main = list(root.find("body/main"))
    assert [element.tag for element in main[:5]] == ["h1", "h2", "p", "figure", "div"]
    found = report.recipes[0].differences[report.recipes[0].systems[0]]
    assert ROTARY in (said := "".join(main[2].itertext())) and f"{found.value:+.2f}" in said
    assert said.split() == answers(report).split()[1:], "as the terminal has it"
    assert [element.tag for element in main[-4:]] == ["p", "ul", "details", "details"], "the next commands stay open"
    assert f"data:image/png;base64,{b64encode(b'a heat map').decode()}" in [each.get("src") for each in root.iter()]
    item = next("".join(item.itertext()) for item in root.iter("li") if "a <b> *c*" in "".join(item.itertext()))
    assert "x y" in item and "z" in item
    for element in root.iter():
        assert element.tag not in ("script", "link") and not element.get("href", "#").startswith("http")
        assert element.get("src", "data:").startswith("data:"), "it needs no other file"


def test_a_recipe_of_any_name_has_its_pictures(tmp_path):
    path = result(tmp_path, ROTARY, more={"recipe": "für 50% & <mehr>"})
    path.rename(tmp_path / "für 50% & mehr.json").with_suffix(".png").write_bytes(b"a heat map")
    assert b64encode(b"a heat map").decode() in to_html(read_report([tmp_path]))


def test_each_kind_of_recipe_has_a_section(tmp_path):
    result(tmp_path / "a", ROTARY, test=0.1)
    result(tmp_path / "a", SINUSOIDAL, 2, updates=7, more={"unfinished": "killed *now*"})
    result(tmp_path / "b", ROTARY, more={"recipe": "begun", "unfinished": "killed"})
    model(tmp_path / "c", ROTARY, 3.0)
    tuned(tmp_path, ROTARY, "CoLA", matthews=20.0)
    made = to_markdown(read_report(sorted(tmp_path.iterdir())))
    sections = {part.split("\n")[0]: part for part in made.split("\n## ")[1:]}
    assert list(sections) == ["`small`", "`begun`", "`books`", "Fine-tuning with `glue`"]
    assert rf"| `{SINUSOIDAL}` | 2 | 7 | 20 | killed \*now\* |" in sections["`small`"]
    assert "| `roformer_tiny` | 1 | 20 | 20 | killed |" in sections["`begun`"]
