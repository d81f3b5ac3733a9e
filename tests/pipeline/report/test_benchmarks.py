"""The report's data about speed: a row for each measured candidate of any machine, and what it belongs to."""

import json

import pytest

from pipeline.report.benchmarks import RELATIVE, read_speed
from pipeline.results.file import read_results

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
    path.write_text(json.dumps({"what": f"about {name}", "machine": CPU, **entries, "rows": rows}))
    return path


def speed(*paths):
    return read_speed(read_results(paths)[2])


def tables(*paths):
    return [table for kind in speed(*paths).tables.values() for table in kind]


def heads(columns):
    return [head for head, _ in columns]


def lines(table):
    return [list(line) for line in zip(*(cells for _, cells in [*table.first, *table.columns]))]


def test_a_time_is_relative_to_sinusoidal_positions_of_the_same_file_and_precision(tmp_path):
    rows = [step("transformer_sinusoidal_base", 2.0, seconds=9.0), step("tupe_r_base", 1.6, seconds=2.0)]
    rows += [step("tupe_r_base@bf16", 3.0, "bf16", seconds=2.4)]
    made_with = {"criterion, optimizer": ["fused", "fused_adam"]}
    bf16 = step("transformer_sinusoidal_base@bf16", 2.4, "bf16", seconds=3.0)
    write(tmp_path, "train-a", [*rows, bf16], **made_with)
    write(tmp_path, "train-b", [step("tupe_r_base", 1.6)], **made_with)
    write(tmp_path, "train-c", [step("transformer_sinusoidal_base+compile", 4.0, seconds=1.0), *rows[:2]])
    first, second, third = tables(tmp_path)
    assert heads(first.first) == ["candidate", "precision"]
    assert third.columns[-1] == (RELATIVE, ["0.50", "1.00", "1.25"])  # not to the compiled one
    # 2 / 1.6 and 2.4 / 3: the seconds are not of the same rounds
    assert first.columns[-1] == (RELATIVE, ["1.00", "1.25", "0.80", "1.00"])
    assert lines(second) == [["tupe_r_base", "2.5", "1.6", "1.6\u20131.6", "9%"]]  # one precision is a setting
    assert second.settings == ["precision: fp32", "criterion, optimizer: fused, fused_adam"]
    assert speed(tmp_path).steps == [  # of the third it is not known with which criterion
        ("train-a", "fused", "fused_adam", {"transformer_sinusoidal_base": 0.5, "tupe_r_base": 0.625}),
        ("train-b", "fused", "fused_adam", {"tupe_r_base": 0.625}),
    ]


def test_a_time_is_relative_to_sinusoidal_positions_of_the_same_size(tmp_path):
    rows = [step(f"transformer_sinusoidal_{size}", ratio) for size, ratio in (("tiny", 10.0), ("base", 1.0))]
    write(tmp_path, "train-a", [step("stock", 1.0), *rows, step("roformer_base", 1.0), step("roformer_big", 0.5)])
    (made,) = tables(tmp_path)
    assert made.columns[-1] == (RELATIVE, ["", "1.00", "1.00", "1.00", ""])  # of stock the size is not known


def test_decoding_has_columns_for_each_batch(tmp_path):
    row = {"sentences": 64, "candidate": "stock, bf16", "seconds": 1.0, **ratio(1.5), "tokens/s": 27.3}
    write(tmp_path, "decode-cpu", [row, {**row, "sentences": 1, "tokens/s": 3}])
    (table,) = tables(tmp_path)
    rest = ["quartiles", "tokens/s"]
    assert heads(table.columns) == ["sentences 64", *rest, "sentences 1", *rest]
    assert lines(table) == [["stock, bf16", "1.5", "1.5\u20131.5", "27.3", "1.5", "1.5\u20131.5", "3"]]


def test_attention_has_a_row_for_each_length_and_no_column_for_the_baseline(tmp_path):
    rows = [{"tokens": n, "side": side, "attention": "rope", **ratio(0.5)} for n in (64, 128) for side in ("e", "d")]
    write(tmp_path, "attention-cpu", [{**rows[0], "attention": "fairseq", **ratio(1.0)}, *rows[:3]])
    (table,) = tables(tmp_path)
    assert heads(table.columns) == ["rope, e", "quartiles", "rope, d", "quartiles"]
    assert lines(table) == [["64", *["0.5", "0.5\u20130.5"] * 2], ["128", "0.5", "0.5\u20130.5", "", ""]]


def test_preparation_has_a_row_for_each_step(tmp_path):
    rows = [{"step": step, "prepare.sh (s)": 2, "plain chain (s)": 3, **ratio(1.5)} for step in ("all", "tokenize")]
    write(tmp_path, "prepare-cpu", rows)
    (table,) = tables(tmp_path)
    assert heads(table.columns) == ["prepare.sh (s)", "plain chain (s)", "times as fast", "quartiles"]
    assert lines(table)[0] == ["all", "2", "3", "1.5", "1.5\u20131.5"]


def test_settings_machine_and_command_are_those_of_the_file(tmp_path):
    write(tmp_path, "train-b", [step("stock", 1.0)], flags=[], repeats=3, command="scripts/benchmark.sh train")
    write(tmp_path, "train-a", [step("stock", 1.0)], batch={"sentences": 7}, machine={"gpu": "g"})
    first, second = tables(tmp_path)
    assert (first.file, first.what, first.settings) == (
        "train-a",
        "about train-a",
        ["precision: fp32", "batch: sentences 7"],
    )
    assert (second.settings, second.command) == (["precision: fp32", "repeats: 3"], "scripts/benchmark.sh train")
    assert speed(tmp_path).machines == {"gpu g": ["train-a"], "cpu a, cores 2": ["train-b"]}


def test_a_benchmark_is_known_by_its_name_and_read_once(tmp_path):
    file = write(tmp_path, "train-cpu", [step("stock", 1.0)])
    assert tables(file) == tables(file, tmp_path) == tables(tmp_path)
    assert tables(tmp_path) == tables(tmp_path, tmp_path / ".." / tmp_path.name) != []
    file.rename(tmp_path / "train.json")
    assert not tables(tmp_path)


@pytest.mark.parametrize(
    "rows", [[], None, [1], [{"candidate": "x"}], [step("x", 1.0), {}], [step("x", "1")], [step("x", 0.0)]]
)
def test_files_of_another_form_are_named_and_passed_over(tmp_path, rows):
    write(tmp_path, "other", rows)
    (tmp_path / "benchmark-list.json").write_text("[1]")
    assert not tables(tmp_path) and speed(tmp_path).others == ["benchmark-list.json", "benchmark-other.json"]


def test_every_committed_benchmark_with_rows_is_shown():
    shown = {table.file for table in tables(RESULTS)}
    for path in RESULTS.glob("benchmark-*.json"):
        assert (path.stem[len("benchmark-") :] in shown) == ("rows" in json.loads(path.read_text()))
