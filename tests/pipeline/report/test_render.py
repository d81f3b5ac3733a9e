"""The report as Markdown and HTML: one file that needs nothing else, hostile text, the same bytes, the first screen."""

import json
import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

from pipeline.report import build
from pipeline.report.data import Wanted, printable, read_report
from pipeline.report.pictures import draw
from pipeline.report.render import code, grid, text, to_html, to_markdown

from ...commands import ENVIRONMENT, ROOT
from .made_results import result

RESULTS = ROOT / "results"
NASTY = "<script>a|b\\|c</script> & `c` *d* [e](f) ![g](h) # \\ \"i' $j$\n\n# k\n```\n\x1b"
ONE_LINE = printable(NASTY).strip()
TUPE = {"encoder": {"encoding": "tupe_a", "correlations": [[[1.0]]]}}


@pytest.fixture(scope="module")
def committed():
    return read_report([RESULTS], Wanted())


@pytest.mark.slow
def test_the_committed_report_is_that_of_the_committed_results(committed):
    """Without the pictures, whose bytes depend on matplotlib, and the versions in the signature of the test."""

    def lines(made):
        made = re.sub(r"### (Learning curves|What positions contribute)\n.*?(?=\n##)", "", made, flags=re.DOTALL)
        return [
            line for line in made.splitlines() if line and not line.startswith(("- p: ", "![", "Left out: the pict"))
        ]

    assert lines((RESULTS / "report/report.md").read_text(encoding="utf-8")) == lines(to_markdown(committed))
    assert not committed.broken


def test_the_committed_report_is_short_and_complete():
    markdown = (RESULTS / "report/report.md").read_text(encoding="utf-8")
    pictures = {path.name: path.read_text(encoding="utf-8") for path in (RESULTS / "report").glob("*.svg")}
    page = ElementTree.fromstring(to_html(markdown, pictures))
    text = [e for part in ("h1", "h2", "h3", "p", "li", "figcaption") for e in page.iter(part)]
    words = [word for e in text for word in "".join(e.itertext()).split()]  # tables grow with the evidence
    recipes = sum("".join(head.itertext()).startswith(("Recipe", "Fine-tuning")) for head in page.iter("h2"))
    assert recipes >= 4 and len(words) <= 2500 + 300 * recipes
    linked = set(re.findall(r"!\[.*?\]\((.*?)\)", markdown))
    assert linked == pictures.keys()
    assert len(list(page.iter("table"))) > 20
    assert len(list(page.iter("{http://www.w3.org/2000/svg}svg"))) == len(linked)


def test_the_html_is_well_formed_and_needs_no_other_file(tmp_path):
    pytest.importorskip("matplotlib")
    for arch in ("transformer_sinusoidal_tiny", "roformer_tiny"):
        result(tmp_path / "results", arch, test=0.3, more={"positions": TUPE})
    build.main(["--results", str(tmp_path / "results"), "--out", str(tmp_path / "out")])
    files = {path.name for path in (tmp_path / "out").iterdir() if path.suffix != ".lock"}
    page = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    root = ElementTree.fromstring(page)
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    for element in root.iter():
        for name, value in element.attrib.items():
            if name.split("}")[-1] in ("href", "src"):
                assert value.startswith("data:image/png") or (value[0] == "#" and value[1:] in ids)
            for target in re.findall(r"url\((.*?)\)", value):
                assert target[0] == "#" and target[1:] in ids
    assert "@import" not in page and "<script" not in page
    linked = re.findall(r"!\[.*?\]\((.*?)\)", (tmp_path / "out/report.md").read_text(encoding="utf-8"))
    assert len(linked) == page.count("<svg") == 5 and {*linked, "report.md", "report.html"} <= files


def test_the_first_screen_has_contents_the_answer_and_one_picture_and_details_are_folded(tmp_path):
    pytest.importorskip("matplotlib")
    for arch, rate in (("transformer_sinusoidal_tiny", 0.3), ("roformer_tiny", 0.1)):
        result(tmp_path, arch, test=rate, measured={"threads": "1", "jobs": "1"})
    report = read_report([tmp_path], Wanted())
    draw(report)
    root = ElementTree.fromstring(to_html(to_markdown(report), report.pictures))
    main = root.find("body/main")
    first = list(main)[: [element.tag for element in main].index("h2")]
    assert [element.tag for element in first] == ["h1", "ul", "figure"]
    answer = "".join(first[1].itertext())
    for said in (
        "Best on test: roformer_tiny",
        "(significant over sentences alone, 1 seed, 95% interval +",
        "as many parameters",
        "trains at 1.00 of its speed",
    ):
        assert said in answer
    assert len(list(main.iter("h3"))) == len(main.findall("details/summary/h3")) == 3
    contents = ["".join(link.itertext()) for link in root.find("body/nav")]
    assert contents == ["".join(heading.itertext()) for heading in main.iter() if heading.tag in ("h2", "h3")]


def test_text_is_never_markup():
    assert "\n" not in ONE_LINE and "\x1b" not in ONE_LINE
    cells = [NASTY, code(NASTY)]
    markdown = f"{grid([cells], cells)}\n\n{text(NASTY)} {code(NASTY)}\n"
    for start in ("# a", "- a", "+ a", "1. a", "> a", "=", "---", "| a |"):
        markdown += f"\n{text(start)}\n"
    root = ElementTree.fromstring(to_html(f"# x\n\n{markdown}", {})).find("body/main")
    cells = ["".join(cell.itertext()) for cell in root.iter() if cell.tag in ("td", "th")]
    assert cells == [ONE_LINE] * 4
    assert [code.text for code in root.iter("code")] == [ONE_LINE] * 3
    assert {element.tag for element in root} <= {"h1", "div", "p"}
    assert [" ".join(p.text.split()) for p in root.iter("p")][1:] == [
        "# a", "- a", "+ a", "1. a", "> a", "=", "---", "| a |",
    ]  # fmt: skip


def test_names_in_results_are_escaped_wherever_they_stand(tmp_path):
    for number in (1, 2):
        path = result(tmp_path, "x", number, test=0.1 * number)
        made = json.loads(path.read_text())
        made.update(recipe=NASTY, arch=NASTY, entries={NASTY: NASTY}, settings=NASTY)
        made["variant"] = NASTY if number == 2 else ""
        made["run"].update(command=f"{NASTY} {number}", flags=f"--x {NASTY}", versions={NASTY: NASTY}, commit=NASTY)
        made["run"].update(machine=f"{NASTY} {number}")
        made["tests"] = {NASTY: {**made["tests"]["test"], "settings": NASTY}}
        made["tests"][NASTY]["scores"]["sacrebleu"]["signature"] = NASTY
        path.write_text(json.dumps(made))
    measured = {"candidate": NASTY, "precision": NASTY, "seconds": 1, "times as fast": 1, "quartiles": NASTY}
    benchmark = {"rows": [{**measured, "share of peak": NASTY}], "what": NASTY, "machine": {NASTY: NASTY}, NASTY: NASTY}
    (tmp_path / "benchmark-a.json").write_text(json.dumps(benchmark))
    (tmp_path / "<i>`|.json").write_text("{")
    report = read_report([tmp_path], Wanted())
    draw(report)
    page = to_html(to_markdown(report), report.pictures)
    root = ElementTree.fromstring(page)
    allowed = {"script", "img", "a", "em", "i"} & {element.tag for element in root.find("body/main").iter()}
    assert not allowed and "<script" not in page
    assert "k" not in {heading.text for heading in root.iter() if heading.tag in ("h1", "h2")}
    widths = [{len(line) for line in table.iter("tr")} for table in root.iter("table")]
    assert len(widths) > 4 and all(len(width) == 1 for width in widths)


def test_the_same_results_make_the_same_bytes(tmp_path):
    for arch in ("transformer_sinusoidal_tiny", "roformer_tiny", "tupe_a_tiny"):
        result(tmp_path / "results", arch, test=0.3)
    paths = sorted((tmp_path / "results").iterdir())
    for seed, order in (("1", paths), ("2", paths[::-1])):
        command = [ROOT / "scripts/report.sh", "--out", tmp_path / seed, "--results", *order, "--archs", "x y"]
        environment = {**ENVIRONMENT, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, check=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert "small: 3 systems, 1 seed each, 2 not run." in done.stdout and not done.stderr
    made = [{path.name: path.read_bytes() for path in sorted((tmp_path / seed).iterdir())} for seed in "12"]
    assert made[0] == made[1] and {"report.md", "report.html", "scores.svg"} <= set(made[0])


def test_without_matplotlib_the_report_says_why_there_are_no_pictures(tmp_path, monkeypatch):
    result(tmp_path, "roformer_tiny", test=0.3)
    monkeypatch.setattr("pipeline.report.pictures.find_spec", lambda name: None)
    report = read_report([tmp_path], Wanted())
    draw(report)
    made = to_markdown(report)
    assert "Left out: the pictures need matplotlib" in made and "![" not in made and not report.pictures


def test_wrong_calls_give_one_line(tmp_path, capsys):
    result(tmp_path, "roformer_tiny", test=0.3)
    with pytest.raises(SystemExit, match="2"):
        build.main(["--results", str(tmp_path), "--out", str(tmp_path / "out"), "--seeds", "one"])
    assert "--seeds: must be a whole number, at least 0, not 'one'" in capsys.readouterr().err
    with pytest.raises(build.Failure, match="none not found: give the folder with the result files as --results"):
        build.main(["--results", str(tmp_path / "none"), "--out", str(tmp_path / "out")])
    assert os.listdir(tmp_path) == ["small-roformer_tiny--seed1.json"]
