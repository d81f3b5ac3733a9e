"""Result files that cannot be used are named and left out; whatever they hold, the report is made."""

import copy
import json

import pytest

from pipeline.command import Failure
from pipeline.report.data import Wanted, read_report
from pipeline.report.pictures import draw
from pipeline.report.render import to_html, to_markdown
from pipeline.results.file import read_result, read_results

from .made_results import result, scored

SINUSOIDAL, ROTARY = "transformer_sinusoidal_tiny", "roformer_tiny"
POSITIONS = {
    "encoder": {"encoding": "tupe_a", "correlations": [[[0.1, None], [-2.0, 3.0]]]},
    "decoder": {"encoding": "rope", "dim": 8, "base": 100.0, "stretch": 2.0},
}


def entry(made, *keys):
    for key in keys[:-1]:
        made = made[key]
    return made, keys[-1]


@pytest.mark.parametrize(
    ("keys", "value", "reason"),
    [
        (["recipe"], None, "has None as 'recipe', which must be text"),
        (["recipe"], "\ud800", "has '\\ud800' as 'recipe', which must be text"),
        (["seed"], "1", "has '1' as 'seed', which must be a whole number"),
        (["run"], [], "has [] as 'run', which must be an object"),
        (["run", "max_update"], "many", "has 'many' as 'run: max_update', which must be a whole number"),
        (["training", "seconds"], 1e300, "has 1e+300 as 'training: seconds', which must be a number"),
        (["curve", "valid", "nll"], [5000], "which must be a number from 0 to 1000"),
        (["curve", "valid", "nll"], [1.0, 2.0], "has columns of several lengths in the curve 'valid'"),
        (["tests", "test", "scores", "sacrebleu", "score"], True, "which must be a number"),
        (["tests", "test", "scores", "sacrebleu", "score"], 99.0, "says 99.0 BLEU, its statistics have"),
        (["tests", "test", "statistics", "ref_len"], [1], "the statistics of 60 sentences (test set test)"),
        (["tests", "test", "sentences"], 0, "has no sentences (test set test)"),
        (
            ["positions", "encoder", "correlations"],
            [[[1.0, 2.0]]],
            "has correlations of the encoder that are not square",
        ),
        (["positions", "decoder"], {"encoding": "rope", "base": 8.0}, "has only a part of dim, base and stretch"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, keys, value, reason):
    path = result(tmp_path, ROTARY, test=0.1, more={"positions": copy.deepcopy(POSITIONS)})
    made = read_result(path)
    inside, key = entry(made, *keys)
    inside[key] = value
    path.write_text(json.dumps(made))
    ((found, said),) = read_results([tmp_path])[1]
    assert found == path and reason in said and "\n" not in said


@pytest.mark.parametrize(
    "keys", [["recipe"], ["run", "flags"], ["training", "devices"], ["tests", "test", "sentences"]]
)
def test_what_is_missing_is_said(tmp_path, keys):
    path = result(tmp_path, ROTARY, test=0.1)
    made = read_result(path)
    inside, key = entry(made, *keys)
    del inside[key]
    path.write_text(json.dumps(made))
    assert read_results([path])[1][0].reason == f"lacks '{': '.join(keys)}'"


@pytest.mark.parametrize("text", ["{", '{"format": NaN}', "[" * 100000, b"\xff", b""])
def test_a_damaged_file_is_left_out_and_named_everywhere(tmp_path, capsys, text):
    result(tmp_path, ROTARY, test=0.1)
    for name in ("a.json", "benchmark-a.json"):
        (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    report = read_report([tmp_path], Wanted())
    assert [(broken.path.name, broken.reason) for broken in report.broken] == [
        ("a.json", "is not JSON, or damaged"),
        ("benchmark-a.json", "is not JSON, or damaged"),
    ]
    assert f"{tmp_path}/a.json is left out: it is not JSON, or damaged\n" in capsys.readouterr().err
    assert "- `a.json` is not JSON, or damaged." in to_markdown(report)


def test_the_name_of_a_damaged_file_stays_one_line(tmp_path, capsys):
    result(tmp_path, ROTARY, test=0.1)
    (tmp_path / "a\nerror: b\x1b[31m.json").write_text("{")
    (broken,) = read_report([tmp_path], Wanted()).broken
    said = capsys.readouterr().err
    assert broken.reason == "is not JSON, or damaged" and said.count("\n") == 1 and "\x1b" not in said


def test_results_that_cannot_stand_side_by_side_are_left_out(tmp_path):
    result(tmp_path, ROTARY, test=0.1)
    again = (tmp_path / f"small-{ROTARY}--seed1.json").rename(tmp_path / "a.json")
    result(tmp_path, ROTARY, test=0.1)
    other = copy.deepcopy(scored("test", 0.3))
    other["statistics"]["source_words"][0] += 1
    result(tmp_path, SINUSOIDAL, more={"tests": {"test": other}})
    report = read_report([tmp_path], Wanted())
    assert [reason for _, reason in report.broken] == [
        f"has the same run as {again.name}: remove one, or give it a --variant",
        f"has other sentences, blocks or tokens in test than {again.name}: score one of them again",
    ]
    assert [system.label for system in report.recipes[0]["systems"]] == [(ROTARY, "")]


def test_json_of_another_kind_is_passed_over_in_a_folder_and_named_alone(tmp_path):
    (tmp_path / "list.json").write_text("[1]")
    assert read_results([tmp_path]) == ([], [], [(tmp_path / "list.json", [1])])
    assert "is no result file of version" in read_results([tmp_path / "list.json"])[1][0].reason
    (tmp_path / "list.json").write_text('{"format": "fairseq_rope result 2"}')
    assert "is no result file of version 'fairseq_rope result 1'" in read_results([tmp_path])[1][0].reason
    named = (tmp_path / "list.json").rename(tmp_path / "benchmark-a.json")
    named.write_text("[1]")
    assert read_results([named]) == read_results([tmp_path]) == ([], [], [(named, [1])])
    with pytest.raises(Failure, match="not found"):
        read_result(tmp_path / "none.json")


def places(value, *before):
    """The way to each entry."""
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(min(1, len(value))):
            yield (*before, key)
            yield from places(value[key], *before, key)


@pytest.mark.parametrize("hostile", [None, -1, 0, 1e15, "`|<script>\n# $x$", [], {}, {"`|<b>": 1}], ids=ascii)
def test_whatever_an_entry_holds_there_is_a_report(tmp_path, hostile):
    result(tmp_path, SINUSOIDAL, test=0.2)
    path = result(tmp_path, ROTARY, unfinished="x", more={"positions": POSITIONS, "tests": {}})
    made = {**json.loads(path.read_text()), "tests": {"test": scored("test", 0.1)}}
    del made["unfinished"]
    path.unlink()
    for number, keys in enumerate(places(made)):
        changed = copy.deepcopy(made)
        inside, key = entry(changed, *keys)
        inside[key] = hostile
        if changed.get("seed") == 1:
            changed["seed"] = number + 2  # so that nothing is compared, and each is a system or a seed
        (tmp_path / f"{number}.json").write_text(json.dumps(changed))
    report = read_report([tmp_path], Wanted())
    assert 20 < len(report.broken) < number
    text = to_markdown(report)
    page = to_html(text, {})
    assert "<script" not in page and "<b>" not in page
    if hostile == 1e15:
        pytest.importorskip("matplotlib")
        draw(report)
