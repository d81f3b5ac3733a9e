"""The report's section about speed: a row for each measured candidate of any machine, and what it belongs to."""

import json

import pytest

from pipeline.command import Failure
from pipeline.report.benchmarks import RELATIVE, throughput
from pipeline.report.document import Code, Heading, Paragraph, Table, to_markdown

from ...commands import ROOT

RESULTS = ROOT / "results"
CPU = {"cpu": "a", "cores": 2}


def ratio(value):
    return {"times as fast": value, "quartiles": f"{value} to {value}"}


def step(candidate, value, precision="fp32", **more):
    row = {"candidate": candidate, "precision": precision, "seconds": 2.5, **ratio(value), "share of peak": "9%"}
    return {**row, **more}


def write(folder, name, rows, **entries):
    path = folder / f"benchmark-{name}.json"
    path.write_text(json.dumps({"what": f"about {name}", **entries, "rows": rows, "machine": CPU}))
    return path


def tables(paths):
    return [block for block in throughput(paths) if isinstance(block, Table)]


def test_all_training_files_are_in_one_table_whatever_their_names(tmp_path):
    write(tmp_path, "train-cpu", [step("stock", 1.0), step("roformer_base", 1.5)])
    write(tmp_path, "train-fp16-h200", [step("stock", 1.0, "fp16")])
    (table,) = tables([tmp_path])
    assert table.header == ["candidate", "precision", "file", "seconds", "times as fast", "quartiles", "share of peak"]
    assert table.rows[1] == [Code("roformer_base"), "fp32", "train-cpu", "2.5", "1.5", "1.5 to 1.5", "9%"]
    assert table.rows[2][:3] == [Code("stock"), "fp16", "train-fp16-h200"]


def test_a_time_is_relative_to_sinusoidal_positions_of_the_same_file_and_precision(tmp_path):
    rows = [step("transformer_sinusoidal_base", 2.0, seconds=1.6), step("tupe_r_base", 1.6, seconds=2.0)]
    rows += [step("tupe_r_base@bf16", 3.0, "bf16", seconds=2.4)]
    write(tmp_path, "train-a", [*rows, step("transformer_sinusoidal_base@bf16", 2.4, "bf16", seconds=3.0)])
    write(tmp_path, "train-b", [step("tupe_r_base", 1.6)])
    (table,) = tables([tmp_path])
    assert table.header[-1] == RELATIVE
    assert [row[-1] for row in table.rows] == ["1.00", "1.25", "0.80", "1.00", ""]  # 2 / 1.6, 2.4 / 3 s


def test_decoding_has_the_tokens_per_second_of_each_batch(tmp_path):
    row = {"sentences": 64, "candidate": "stock, bf16", "seconds": 1.0, **ratio(1.5), "tokens/s": 27.3}
    write(tmp_path, "decode-cpu", [row, {**row, "sentences": 1}])
    (table,) = tables([tmp_path])
    assert table.header == ["candidate", "sentences", "file", "times as fast", "quartiles", "tokens/s"]
    assert table.rows[0] == [Code("stock, bf16"), "64", "decode-cpu", "1.5", "1.5 to 1.5", "27.3"]
    assert table.rows[1][1] == "1"


def test_attention_has_a_row_for_each_length_and_no_column_for_the_baseline(tmp_path):
    rows = [{"tokens": n, "side": side, "attention": "rope", **ratio(0.5)} for n in (64, 128) for side in ("e", "d")]
    write(tmp_path, "attention-cpu", [{**rows[0], "attention": "fairseq", **ratio(1.0)}, *rows[:3]])
    (table,) = tables([tmp_path])
    assert table.header == ["tokens", "rope, e", "rope, d"]
    assert table.rows == [["64", "0.5 (0.5 to 0.5)", "0.5 (0.5 to 0.5)"], ["128", "0.5 (0.5 to 0.5)", ""]]


def test_settings_machine_and_command_are_those_of_the_file(tmp_path):
    write(tmp_path, "train-b", [step("stock", 1.0)], flags=[], repeats=3, command="scripts/benchmark.sh train")
    write(tmp_path, "train-a", [step("stock", 1.0)], batch={"sentences": 7})
    text = to_markdown(throughput([tmp_path]))
    assert "- Machine: cpu a, cores 2.\n" in text
    assert "- `benchmark-train-a.json`: about train-a. batch: sentences 7.\n" in text
    assert "- `benchmark-train-b.json`: about train-b. repeats: 3; `scripts/benchmark.sh train`." in text
    assert "Seconds and tokens per second of different files do not compare" in text
    gpu = json.loads((tmp_path / "benchmark-train-a.json").read_text())
    (tmp_path / "benchmark-train-a.json").write_text(json.dumps({**gpu, "machine": {"gpu": "g"}}))
    text = to_markdown(throughput([tmp_path]))
    assert "- Machine: gpu g (train-a).\n- Machine: cpu a, cores 2 (train-b).\n" in text


def test_there_is_no_section_without_a_benchmark_in_a_folder(tmp_path):
    assert throughput([tmp_path]) == []
    file = write(tmp_path, "train-cpu", [step("stock", 1.0)])
    assert throughput([file]) == []
    assert throughput([tmp_path]) == throughput([tmp_path, tmp_path / ".." / tmp_path.name])
    (tmp_path / "train.json").write_text(file.read_text())
    file.unlink()
    assert throughput([tmp_path]) == []  # of another name


@pytest.mark.parametrize(
    "rows", [[], None, [1], [{"candidate": "x"}], [step("x", 1.0), {}], [step("x", "1")], [step("x", 0.0)]]
)
def test_files_of_another_form_are_named_and_passed_over(tmp_path, rows):
    write(tmp_path, "other", rows)
    assert throughput([tmp_path]) == []
    write(tmp_path, "train", [step("stock", 1.0)])
    (tmp_path / "benchmark-list.json").write_text("[1]")
    last = throughput([tmp_path])[-1]
    assert last == Paragraph("Without such rows, and not shown: benchmark-list.json, benchmark-other.json.")


def test_a_damaged_file_is_refused_in_one_line(tmp_path):
    (tmp_path / "benchmark-train.json").write_text("{")
    with pytest.raises(Failure, match=r"benchmark-train\.json is not JSON, or damaged"):
        throughput([tmp_path])


def test_every_committed_benchmark_with_rows_is_shown():
    text = to_markdown(throughput([RESULTS]))
    for path in RESULTS.glob("benchmark-*.json"):
        assert (f"- `{path.name}`: " in text) == ("rows" in json.loads(path.read_text()))
    assert throughput([RESULTS])[0] == Heading(2, "Throughput")
