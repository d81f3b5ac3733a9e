"""The tasks of fine-tuning: what is read, what is refused, which metrics."""

import json

import pytest

from pipeline.command import Failure
from pipeline.finetuning.tasks import TASKS, Example

STSB = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
ROWS = {
    "CoLA": "gj04\t1\t\tHe \"said so.\ngj04\t0\t*\tSo said.\n",
    "MRPC": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\tOne .\t\"Two\r\n0\t7\t8\tOne .\tThree\r\n",
    "RTE": "index\tsentence1\tsentence2\tlabel\n0\tOne.\tTwo.\tnot_entailment\n1\tOne.\tTwo.\tentailment\n",
    "SST-2": "sentence\tlabel\nno wit \t0\nfine \t1\n",
    "STS-B": STSB + "0\tg\tf\ty\t1\ts\ts\tA plane.\tA bird.\t3.80\n",
}  # fmt: skip
FIRST = {
    "CoLA": Example(('He "said so.',), "1"),
    "MRPC": Example(("One .", '"Two'), "1"),
    "RTE": Example(("One.", "Two."), "not_entailment"),
    "SST-2": Example(("no wit",), "0"),
    "STS-B": Example(("A plane.", "A bird."), "0.76"),  # of 5
}


def write(folder, task, content):
    for name in ("train", "dev"):
        (folder / task).mkdir(exist_ok=True)
        (folder / task / f"{name}.tsv").write_bytes(content.encode())


def test_every_task_reads_its_columns_in_which_quotes_are_text(tmp_path):
    for name, content in ROWS.items():
        write(tmp_path, name, content)
        sets = TASKS[name].read(tmp_path)
        assert list(sets) == ["train", "valid"] and sets["train"] == sets["valid"] and sets["train"][0] == FIRST[name]
        assert {example.label for example in sets["train"]} == set(TASKS[name].labels or ["0.76"])
    assert TASKS["STS-B"].settings == "STS-B numbers / 5" and TASKS["RTE"].settings == "RTE"


def test_a_broken_or_missing_file_is_named_with_its_line(tmp_path):
    with pytest.raises(Failure, match=r"RTE/train\.tsv not found .*--data"):
        TASKS["RTE"].read(tmp_path)
    for task, content, line in (
        ("CoLA", "gj04\t1\t\tHe\n\n", 2),
        ("CoLA", "gj04\t2\t\tHe said so.\n", 1),
        ("RTE", ROWS["RTE"].replace("sentence1", "x"), 2),
        ("STS-B", ROWS["STS-B"].replace("3.80", "nan"), 2),
    ):
        write(tmp_path, task, content)
        with pytest.raises(Failure, match=rf"train\.tsv, line {line}: {task}"):
            TASKS[task].read(tmp_path)


def test_cases_are_split_by_the_first_text_and_the_right_choice_takes_turns(tmp_path):
    triples = [{"A": f"case {number % 40}", "B": f"near {number}", "C": f"far {number}"} for number in range(200)]
    (tmp_path / "input.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in triples))
    sets = TASKS["SCM"].read(tmp_path)
    cases = [{example.sentences[0] for example in examples} for examples in sets.values()]
    assert not cases[0] & cases[1] and sum(map(len, sets.values())) == 200
    for (case, *choices), label in sets["train"]:
        assert case.startswith("case") and choices[int(label)].startswith("near")
        assert choices[1 - int(label)].startswith("far")
    assert 0.3 < sum(int(example.label) for example in sets["train"]) / len(sets["train"]) < 0.7


def test_the_metrics_have_their_names_and_are_percentages():
    pytest.importorskip("sklearn")  # which the official fairseq does not need
    labels = list("1101001"), list("1001101")
    assert TASKS["MRPC"].scores(*labels) == pytest.approx({"f1": 75, "accuracy": 500 / 7}, abs=0.005)
    assert TASKS["CoLA"].scores(*labels) == pytest.approx({"matthews": 500 / 12}, abs=0.005)
    numbers = [["1.5", "2", "0", "4.5"], ["1", "3", "0.5", "5"]]
    assert TASKS["STS-B"].scores(*numbers) == pytest.approx({"pearson": 95.30, "spearman": 100}, abs=0.005)


def test_a_model_that_says_the_same_to_all_correlates_with_nothing():
    pytest.importorskip("sklearn")
    assert TASKS["CoLA"].scores(list("1111"), list("1011")) == {"matthews": 0.0}
    assert TASKS["STS-B"].scores(["2.5"] * 3, ["1", "2", "3"]) == {"pearson": 0.0, "spearman": 0.0}
    assert TASKS["RTE"].scores(["entailment"] * 2, ["entailment", "not_entailment"]) == {"accuracy": 50.0}
