"""The tasks of fine-tuning: what is read, what is refused, which metrics, which learning rate."""

import json

import pytest
from fairseq.criterions import sentence_prediction as fairseq

from pipeline.corpus.text import CorpusError
from pipeline.finetuning.base import Example
from pipeline.finetuning.metrics import evaluate, most_frequent
from pipeline.finetuning.options import TASKS

ROWS = {
    "CoLA": "gj04\t1\t\tHe \"said so.\ngj04\t0\t*\tSo said.\n",
    "MRPC": "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\tOne .\t\"Two\r\n0\t7\t8\tOne .\tThree\r\n",
    "RTE": "index\tsentence1\tsentence2\tlabel\n0\tOne.\tTwo.\tnot_entailment\n1\tOne.\tTwo.\tentailment\n",
    "SST-2": "sentence\tlabel\nno wit \t0\nfine \t1\n",
    "STS-B": "\t".join(TASKS["STS-B"].columns) + "\n" + "0\tg\tf\ty\t1\ts\ts\tA plane.\tA bird.\t3.80\n",
}  # fmt: skip


@pytest.fixture
def write(tmp_path):
    def write(task, content=None, name="train.tsv"):
        path = tmp_path / task / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes((ROWS[task] if content is None else content).encode())
        return path

    return write


@pytest.mark.parametrize("name", ROWS)
def test_every_task_reads_its_columns(write, tmp_path, name):
    write(name), write(name, name="dev.tsv")
    task = TASKS[name]
    sets = task.read(tmp_path)
    assert list(sets) == ["train", "valid"] and {len(example.sentences) for example in sets["train"]} == {task.inputs}
    assert {example.label for example in sets["train"]} == set(task.labels or ["0.76"])  # of 5


def test_numbers_are_learned_as_0_to_1_which_tells_trainings_apart():
    assert TASKS["STS-B"].settings == "STS-B numbers / 5" and TASKS["RTE"].settings == "RTE"


def test_quotes_and_blanks_are_text(write, tmp_path):
    (first, _) = TASKS["CoLA"].examples(write("CoLA"))
    assert first == Example(('He "said so.',), "1")
    (first, _) = TASKS["MRPC"].examples(write("MRPC"))
    assert first == Example(("One .", '"Two'), "1")


@pytest.mark.parametrize(
    "task,content,message",
    [
        ("CoLA", "gj04\t1\tHe said so.\n", "line 1: 3 fields, and CoLA has 4"),
        ("CoLA", "gj04\t1\t\tHe\n\n", "line 2: 1 fields, and CoLA has 4"),
        ("CoLA", "gj04\tx\ny\t\tHe\n", "line 1: 2 fields"),
        ("CoLA", "gj04\t2\t\tHe said so.\n", "line 1: label '2', and CoLA has 0 and 1"),
        ("CoLA", "gj04\t1\t\t \n", "line 1: a sentence is empty"),
        ("CoLA", b"gj04\t1\t\t\xff\n".decode("latin-1"), None),
        ("RTE", ROWS["RTE"].split("\n", 1)[1], "line 1: not the header of RTE: it has index sentence1 sentence2 label"),
        ("STS-B", ROWS["STS-B"].replace("3.80", "high"), "line 2: label 'high', and STS-B has numbers"),
        ("STS-B", ROWS["STS-B"].replace("3.80", "nan"), "line 2: label 'nan', and STS-B has numbers"),
        ("SST-2", "sentence\tlabel\n", "no examples"),
        ("SST-2", "", "line 1: not the header of SST-2"),
    ],
)
def test_a_broken_file_is_refused_with_its_line(write, tmp_path, task, content, message):
    write(task, content), write(task, name="dev.tsv")
    if message is None:  # fine text of another encoding
        return TASKS[task].read(tmp_path)
    with pytest.raises(CorpusError, match=message) as refused:
        TASKS[task].read(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CorpusError, match=r"CoLA/train\.tsv not found \(nor with \.gz\)"):
        TASKS["CoLA"].read(tmp_path)


def test_cases_are_split_by_the_first_text_and_the_right_choice_takes_turns(tmp_path):
    triples = [{"A": f"case {number % 40}", "B": f"near {number}", "C": f"far {number}"} for number in range(200)]
    (tmp_path / "input.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in triples))
    sets = TASKS["SCM"].read(tmp_path)
    cases = [{example.sentences[0] for example in examples} for examples in sets.values()]
    assert not cases[0] & cases[1] and sum(map(len, sets.values())) == 200
    for case, one, other in (example.sentences for example in sets["train"]):
        assert case.startswith("case") and {one[:3], other[:3]} == {"nea", "far"}
    examples = sets["train"]
    assert all(example.sentences[1 + int(example.label)].startswith("near") for example in examples)
    assert 0.3 < sum(int(example.label) for example in examples) / len(examples) < 0.7
    (tmp_path / "input.jsonl").write_text('{"A": "a", "B": "b"}\n')
    with pytest.raises(CorpusError, match=r"line 1: lacks 'C'"):
        TASKS["SCM"].read(tmp_path)


def test_the_metrics_are_those_of_fairseq():
    predictions, labels = list("1101001"), list("1001101")
    arrays = [fairseq.np.array([int(letter) for letter in side]) for side in (predictions, labels)]
    both = fairseq.acc_and_f1(*arrays)
    expected = {"f1": 100 * both["f1"], "accuracy": 100 * both["acc"]}
    assert evaluate(TASKS["MRPC"], predictions, labels) == pytest.approx(expected, abs=0.005)
    matthews = 100 * fairseq.matthews_corrcoef(*arrays)
    assert evaluate(TASKS["CoLA"], predictions, labels) == pytest.approx({"matthews": matthews}, abs=0.005)
    numbers = [["1.5", "2", "0", "4.5"], ["1", "3", "0.5", "5"]]
    known = fairseq.pearson_and_spearman(*([float(number) for number in side] for side in numbers))
    expected = {"pearson": 100 * known["pearson"], "spearman": 100 * known["spearmanr"]}
    assert evaluate(TASKS["STS-B"], *numbers) == pytest.approx(expected, abs=0.005)


def test_a_model_that_says_the_same_to_all_correlates_with_nothing():
    assert evaluate(TASKS["CoLA"], list("1111"), list("1011")) == {"matthews": 0.0}
    assert evaluate(TASKS["STS-B"], ["2.5"] * 3, ["1", "2", "3"]) == {"pearson": 0.0, "spearman": 0.0}
    assert evaluate(TASKS["RTE"], ["entailment"] * 2, ["entailment", "not_entailment"]) == {"accuracy": 50.0}


def test_chance_is_the_most_frequent_label_of_the_training_set():
    assert most_frequent(TASKS["MRPC"], list("110"), list("1000")) == {"f1": 40.0, "accuracy": 25.0}
    assert most_frequent(TASKS["STS-B"], ["0.5", "1", "0.5"], ["0", "1"]) == {"pearson": 0.0, "spearman": 0.0}
