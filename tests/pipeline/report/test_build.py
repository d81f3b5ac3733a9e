"""The report: figures from the project's own results, rows that were not run, two forms of one document."""

import copy
import json
import re
import statistics
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

import pytest

from pipeline.command import Failure
from pipeline.report.benchmarks import throughput
from pipeline.report.build import NO_PICTURES, document, sections, write
from pipeline.report.comparison import Difference, choose_baseline, differences
from pipeline.report.document import (
    Bullets,
    Code,
    Heading,
    Listing,
    Paragraph,
    Picture,
    Strong,
    Table,
    plain,
    to_html,
    to_markdown,
)
from pipeline.report.positions import TITLE as POSITIONS
from pipeline.report.systems import System, group, mean_and_deviation
from pipeline.results.file import ResultError, read_results, write_result
from pipeline.scoring.statistics import paired_bootstrap, rows

from ...commands import ENVIRONMENT, ROOT

RESULTS = ROOT / "results"
SOME = [RESULTS / f"demo-{arch}-seed1.json" for arch in ("roformer_tiny", "transformer_sinusoidal_tiny", "tupe_a_tiny")]


def load(path):
    return json.loads(path.read_text(encoding="utf-8"))


def changed(path, folder, **changes):
    """A copy of a result with other entries; ``scores`` moves all scores."""
    result = copy.deepcopy(load(path))
    moved = changes.pop("scores", 0.0)
    for test in result["tests"].values():
        for score in test["scores"].values():
            score["score"] = round(score["score"] + moved, 2)
    result.update(changes)
    name = f"{result['recipe']}-{result['arch']}-{result['variant']}-{result['seed']}.json"
    write_result(result, folder / name)
    return folder / name


def report(paths, recipe=None, archs=(), seeds=(), baseline=None, pictures=False):
    return document(sections(paths, recipe, archs, seeds, baseline, pictures), throughput(paths))


def markdown(*args, **options):
    return to_markdown(report(*args, **options))


def row(text, start, after="### Scores on"):
    """The cells of the first row behind ``after`` that begins with ``start``."""
    text = text[text.index(after) :]
    found = re.search(rf"^\| {re.escape(start)} \|(.*)\|$", text, re.MULTILINE)
    assert found, f"no row {start}"
    return [cell.strip() for cell in found[1].split(" |")]


def test_the_committed_report_is_that_of_the_committed_results():
    """Without the pictures, whose bytes depend on matplotlib, and the versions in signatures of tests."""

    def lines(text):
        text = re.sub(rf"### {POSITIONS}\n.*?(?=\n##)", "", text, flags=re.DOTALL)
        return [line for line in text.splitlines() if not line.startswith(("- p: ", "!["))]

    committed = (RESULTS / "report/report.md").read_text(encoding="utf-8")
    expected = markdown([RESULTS])
    pictures = ["A line for each seed; the legend is in the order of the last values, highest first."]
    assert [line for line in lines(committed) if line and line not in pictures] == [
        line for line in lines(expected) if line and line.replace("\\", "") != NO_PICTURES
    ]


def test_mean_and_deviation_are_of_a_sample():
    assert mean_and_deviation([1.0, 2.0, 4.5]) == (2.5, statistics.stdev([1.0, 2.0, 4.5]))
    assert mean_and_deviation([3.0]) == (3.0, None)


def test_scores_over_seeds_have_mean_and_deviation(tmp_path):
    further = [changed(path, tmp_path, seed=2, scores=moved) for path, moved in zip(SOME, (1.0, -0.5, 0.0))]
    text = markdown([*SOME, *further])
    first = load(SOME[0])["tests"]["test"]["scores"]["sacrebleu"]["score"]
    base = load(SOME[1])["tests"]["test"]["scores"]["sacrebleu"]["score"]
    cells = row(text, "`roformer_tiny`")
    assert cells[0] == "1, 2"
    assert cells[1].strip("*") == f"{first + 0.5:.2f} ± {0.5**0.5:.2f}"
    assert cells[6] == f"+{first - base + 0.75:.2f}"
    assert row(text, "`transformer_sinusoidal_tiny`")[6:] == ["baseline", ""]


def test_p_values_are_paired_seed_by_seed_and_never_pooled(tmp_path):
    worse = load(SOME[2])
    second = changed(SOME[0], tmp_path, seed=2, tests=worse["tests"])  # tupe's output under RoFormer's name
    base = changed(SOME[1], tmp_path, seed=2)
    systems = group(read_results([SOME[0], SOME[1], second, base]))["demo"]
    found, _ = differences(systems, systems[1], "test_long")

    def p(path):
        pair = [rows(load(name)["tests"]["test_long"]["statistics"]) for name in (SOME[1], path)]
        return paired_bootstrap(pair[0], {"x": pair[1]})[0]["x"]

    assert list(found) == [0] and found[0].p == {1: p(SOME[0]), 2: p(SOME[2])}
    assert p(SOME[0]) > 0.05 > p(SOME[2])
    assert not found[0].significant  # in one of two seeds only
    cell = row(markdown([SOME[0], SOME[1], second, base]), "`roformer_tiny`", after="Scores on `test_long`")[7]
    assert cell == f"{p(SOME[0]):.4f} / {p(SOME[2]):.4f}"
    assert row(markdown(SOME), "`tupe_a_tiny`", after="Scores on `test_long`")[7] == f"{p(SOME[2]):.4f} \\*"


def test_only_common_seeds_are_compared(tmp_path):
    other = changed(SOME[0], tmp_path, seed=2)
    text = markdown([other, SOME[1]])
    assert row(text, "`roformer_tiny`")[6:] == ["", ""]
    assert "no seed in common with the baseline" in text


def test_what_was_not_run_says_so(tmp_path):
    text = markdown(SOME[:2], recipe="demo", archs=["roformer_tiny", "tupe_r_tiny"], seeds=[1, 2])
    assert row(text, "`tupe_r_tiny`")[0] == "not run"
    assert row(text, "`roformer_tiny`")[0] == "1; 2 not run"
    for after in ("BLEU by source length", "### Costs"):
        assert row(text, "`tupe_r_tiny`", after=after)[0] == "not run"
    assert "2 systems, 1 seed each, 1 not run" in text


def test_the_papers_figures_stand_beside_their_kind_of_bleu(tmp_path):
    tests = {"newstest2014": load(SOME[0])["tests"]["test"]}
    path = changed(SOME[0], tmp_path, recipe="wmt14_en_de", arch="roformer_base", tests=tests)
    text = markdown([path])
    header = row(text, "system")
    place = header.index("papers' moses+split")
    assert header[place - 1] == "moses+split"
    assert row(text, "`roformer_base`")[place] == "27.5"
    assert row(text, "`transformer_sinusoidal_base`")[0] == "not run"
    assert row(text, "`transformer_sinusoidal_base`")[place] == "27.3"
    assert "cased BLEU, tokenised, compounds split" in text
    empty = markdown(SOME, recipe="wmt14_en_de_shaw", archs=["transformer_shaw_base"])
    assert row(empty, "`transformer_shaw_base`")[place] == "26.8"
    assert row(empty, "`transformer_sinusoidal_base`")[place] == "26.5"
    assert "papers' moses+split" not in markdown(SOME)


def test_variants_are_systems_of_their_own(tmp_path):
    text = markdown([RESULTS], recipe="demo")
    assert row(text, "`roformer_linear_tiny`")[1] == "96.65"
    assert row(text, "`roformer_linear_tiny` (favor)")[1] == "88.79"
    assert "- `roformer_linear_tiny` (favor): `--linear-feature-map favor`" in text
    assert "- `transformer_learned_tiny` (1,500 updates): `1,500 updates`" in text


def test_the_baseline_is_sinusoidal_in_the_size_of_the_others(tmp_path):
    def systems(*names):
        return [System(arch, variant, {1: {}} if arch[0] != "-" else {}) for arch, variant in names]

    def chosen(*names, arch=None):
        found = choose_baseline(systems(*names), arch)
        return found and (found.arch, found.variant)

    sinusoidal = [("transformer_sinusoidal_big", ""), ("transformer_sinusoidal_base", "")]
    assert chosen(("roformer_base", ""), *sinusoidal) == ("transformer_sinusoidal_base", "")
    assert chosen(("roformer_big", ""), *sinusoidal) == ("transformer_sinusoidal_big", "")
    assert chosen(("a", "v"), ("b", ""), ("transformer_sinusoidal_base", "v")) == ("b", "")
    assert chosen(("roformer_base", ""), *sinusoidal, arch="roformer_base") == ("roformer_base", "")
    assert chosen(("-a", "")) is None
    with pytest.raises(ResultError, match="the baseline 'x' has no result"):
        markdown(SOME, baseline="x")


def test_costs_are_those_of_the_log():
    cells = row(markdown(SOME), "`roformer_tiny`", after="### Costs")
    training = load(SOME[0])["training"]
    assert cells[:3] == [f"{training[key]:,}" for key in ("parameters", "updates", "target_tokens")]
    assert cells[4] == cells[5] == "" and cells[6] == "5"  # how many runs shared the machine was not recorded
    assert cells[7] == f"{2 ** load(SOME[0])['curve']['valid']['nll'][-1]:.2f}"


def test_times_are_those_of_the_log_where_it_is_known_how_many_runs_shared_the_machine(tmp_path):
    made = load(SOME[0])
    made["run"]["jobs"] = "1"
    write_result(made, tmp_path / "a.json")
    cells = row(markdown([tmp_path]), "`roformer_tiny`", after="### Costs")
    assert cells[4:6] == ["2 min 32 s", f"{made['training']['target_tokens_per_second']:,}"]


def test_the_steps_before_and_after_the_trainings_are_listed(tmp_path):
    made = load(SOME[0])
    made["data"]["command"] = "scripts/prepare.sh --train RAW/train --merges 5 --out DATA"
    write_result(made, tmp_path / "a.json")
    steps = markdown([tmp_path]).split("### Commands")[1]
    assert [line for line in steps.splitlines() if line.startswith("scripts/")] == [
        "scripts/prepare.sh --train RAW/train --merges 5 --out DATA",
        "scripts/average.sh --run RUN --data DATA --last 5",
        "scripts/score.sh --run RUN --data DATA --subset test    # test, beam 4, lenpen 0.6",
        "scripts/score.sh --run RUN --data DATA --subset test1    # test_long, beam 4, lenpen 0.6",
        made["run"]["command"],
    ]


def test_the_same_results_make_the_same_bytes(tmp_path):
    made = []
    for number, paths in ((1, SOME), (2, SOME[::-1])):
        environment = {**ENVIRONMENT, "PYTHONHASHSEED": str(number)}
        out = tmp_path / str(number)
        command = [sys.executable, "-m", "pipeline.report.build", "--results", *paths, "--out", out]
        subprocess.run(command, check=True, cwd=tmp_path, env=environment, capture_output=True)
        made.append({path.name: path.read_bytes() for path in sorted(out.iterdir())})
    assert made[0] == made[1]
    assert {"report.md", "report.html"} <= set(made[0])


def test_the_order_of_the_files_chooses_no_baseline():
    paths = sorted(RESULTS.glob("multi30k_cpu_1500-*.json"))
    text = markdown(paths)
    assert markdown(paths[::-1]) == text
    assert row(text, "`fairseq_transformer_multi30k`")[6] == "baseline"


def test_the_html_is_well_formed_and_needs_no_other_file(tmp_path):
    pytest.importorskip("matplotlib")
    positions = {"encoder": {"encoding": "tupe_a", "correlations": [[[1.0]]]}}
    blocks = report([*SOME[:2], changed(SOME[2], tmp_path / "results", positions=positions)], pictures=True)
    files = {path.name for path in write(blocks, tmp_path)}
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
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
    assert len(re.findall("<svg", page)) == 4
    linked = re.findall(r"!\[.*?\]\((.*?)\)", (tmp_path / "report.md").read_text(encoding="utf-8"))
    assert len(linked) == 4 and {*linked, "report.md", "report.html"} == files
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]


def test_without_matplotlib_the_report_says_why_there_are_no_pictures():
    text = markdown(SOME)
    assert NO_PICTURES in text and "![" not in text


NASTY = "<b>a|b</b> & `c` *d* [e](f) ] --> \\ \"g'"


def test_text_is_escaped_in_both_forms():
    blocks = [
        Heading(1, NASTY),
        Paragraph([NASTY, Code(NASTY), Strong(NASTY)]),
        Bullets([NASTY]),
        Table(["x", Code(NASTY)], [[NASTY, Strong(NASTY)]]),
        Listing(f"```\n{NASTY}"),
        Picture("a b.svg", '<?xml version="1.0"?><svg id="x"><use href="#x"/></svg>', NASTY),
    ]
    root = ElementTree.fromstring(to_html(blocks, NASTY))
    assert root.find("head/title").text == NASTY
    texts = ["".join(element.itertext()) for element in root.iter() if element.tag in ("h1", "li", "code", "strong")]
    assert set(texts) == {NASTY}
    assert root.find("body/main/pre").text == f"```\n{NASTY}"
    assert plain(["a", Code("b"), Strong("c")]) == "abc"
    text = to_markdown(blocks)
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in table} == {3}
    assert r"&lt;b>a\|b&lt;/b> &amp; \`c\` \*d\* \[e\](f) \]" in text
    assert "`` <b>a" not in text and "``<b>a|b</b> & `c`" in text  # a code span, by a longer fence
    assert "````\n```\n" in text


def test_names_in_results_are_escaped_too(tmp_path):
    path = changed(SOME[0], tmp_path, variant="<i>|", recipe="demo")
    assert "(&lt;i>\\|)" in markdown([path])
    assert "(&lt;i&gt;|)" in to_html(report([path]), "x")


def test_other_json_in_a_folder_is_passed_over(tmp_path):
    assert {path.name for path, _ in read_results([RESULTS])} == {
        path.name for path in RESULTS.glob("*.json") if not path.name.startswith("benchmark")
    }
    with pytest.raises(ResultError, match="is no result file"):
        read_results([RESULTS / "benchmark-train-cpu.json"])
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(ResultError, match=r"no result file in .*: run scripts/reproduce\.sh first"):
        markdown([tmp_path])


def test_results_that_cannot_be_used_are_refused(tmp_path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(Failure, match=r"a\.json is not JSON, or damaged"):
        read_results([tmp_path])
    (tmp_path / "a.json").write_text(json.dumps({"format": load(SOME[0])["format"]}))
    with pytest.raises(ResultError, match=r"a\.json lacks 'recipe'"):
        read_results([tmp_path])
    incomplete = load(SOME[0])
    del incomplete["run"]["flags"]
    (tmp_path / "a.json").write_text(json.dumps(incomplete))
    with pytest.raises(ResultError, match=r"a\.json lacks 'run: flags'"):
        read_results([tmp_path])
    with pytest.raises(Failure, match=r"nothing\.json not found"):
        read_results([tmp_path / "nothing.json"])
    with pytest.raises(ResultError, match=r"no result of recipe 'x' in .*; recipes there: demo"):
        markdown(SOME, recipe="x")


def test_runs_that_do_not_compare_are_refused(tmp_path):
    again = changed(SOME[0], tmp_path / "a")
    with pytest.raises(ResultError, match="are the same run"):
        markdown([SOME[0], again])
    run = {**load(SOME[0])["run"], "flags": load(SOME[0])["run"]["flags"] + " --dropout 0.5"}
    other = changed(SOME[0], tmp_path / "b", seed=2, run=run)
    rows = [line for line in markdown([SOME[0], other]).splitlines() if line.startswith("| `")]
    arch = load(SOME[0])["arch"]
    assert any(f"`{arch}` (settings 1)" in row for row in rows) and any("(settings 2)" in row for row in rows)
    shorter = changed(SOME[0], tmp_path / "d", seed=2, training={**load(SOME[0])["training"], "updates": 7})
    assert "(7 updates)" in markdown([SOME[0], shorter]) and "(1,000 updates)" in markdown([SOME[0], shorter])
    tests = copy.deepcopy(load(SOME[1])["tests"])
    tests["test"]["statistics"]["ref_len"][0] += 1
    with pytest.raises(ResultError, match="have other sentences in test"):
        markdown([SOME[0], changed(SOME[1], tmp_path / "c", tests=tests)])


def test_the_script_reports_and_refuses_in_one_line(tmp_path):
    def run(*words):
        command = [ROOT / "scripts/report.sh", *words]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT)

    assert "--results RESULTS" in run("--help").stdout
    failed = run("--results", tmp_path / "none", "--out", tmp_path)
    assert failed.returncode == 1 and "not found" in failed.stderr and failed.stderr.count("\n") == 1
    failed = run("--results", tmp_path, "--out", tmp_path, "--seeds", "one")
    assert failed.returncode == 2 and "whole numbers" in failed.stderr
    done = run("--results", SOME[0], "--results", SOME[1], "--out", tmp_path / "a b", "--archs", "x y")
    assert done.returncode == 0 and "2 systems, 1 seed each, 2 not run" in done.stdout
    assert (tmp_path / "a b/report.html").is_file()


def test_a_difference_is_significant_in_one_direction_only():
    p = {1: 0.001, 2: 0.001}
    assert Difference({1: 0.5, 2: 0.1}, p).significant and Difference({1: -0.5, 2: -0.1}, p).significant
    assert not Difference({1: 0.5, 2: -0.5}, p).significant
    assert not Difference({1: 0.5, 2: 0.1}, {1: 0.001, 2: 0.2}).significant
