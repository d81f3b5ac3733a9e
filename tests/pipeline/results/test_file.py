"""Reading result files: what is damaged or another file is told apart, and when a sweep counts a run as finished."""

import json

import pytest

from pipeline.results.file import read_result, read_results

from ..report.made_results import ROTARY, result


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda made: made.pop("recipe"), "recipe"),
        (lambda made: made["tests"]["test"]["scores"]["sacrebleu"].update(score=99.0), "99.0 BLEU"),
        (lambda made: made.update(format="fairseq_rope result 2"), "fairseq_rope result 1"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_name(tmp_path, change, reason):
    path = result(tmp_path, ROTARY, test=0.1)
    made = json.loads(path.read_text())
    change(made)
    path.write_text(json.dumps(made))
    results, (said,), _ = read_results([tmp_path])
    assert not results and str(path) in said and reason in said


def test_files_are_read_once_in_order_and_other_json_is_handed_on(tmp_path):
    paths = [result(tmp_path, arch, test=0.1) for arch in (ROTARY, "a_tiny")]
    (tmp_path / "benchmark-x.json").write_text("[1]")
    results, broken, others = read_results([paths[0], tmp_path, tmp_path / ".." / tmp_path.name])
    assert [made.arch for made in results] == ["a_tiny", ROTARY] and not broken
    assert [content for _, content in others] == [[1]]


def test_a_result_is_from_a_run_with_its_settings_updates_and_averaged_checkpoints(tmp_path):
    settings = "data 12ab\ntrain --arch roformer_tiny --seed 1\n"
    made = read_result(result(tmp_path, ROTARY, more={"settings": settings.strip()}, test=0.1))
    assert made.is_from(settings, 20, 5) and made.is_from(settings.split("\n")[1], 20, 5)
    assert not made.is_from(settings.replace("12ab", "34cd"), 20, 5), "other data"
    assert not made.is_from(settings + "--dropout 0.3", 20, 5), "other flags"
    assert not made.is_from(settings, 30, 5) and not made.is_from(settings, 20, 1)
