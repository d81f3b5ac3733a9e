"""The tasks of fine-tuning: what is read, what is refused, which metrics, which learning rate."""

import json

import pytest
import torch
from fairseq.criterions import sentence_prediction as fairseq
from fairseq.data import Dictionary, data_utils

from pipeline.command import Failure
from pipeline.corpus.text import CorpusError
from pipeline.files import read_json, write_json
from pipeline.finetuning.base import SHORTENED, Example
from pipeline.finetuning.data import encode, shorten
from pipeline.finetuning.finetune import set_by
from pipeline.finetuning.metrics import evaluate, most_frequent
from pipeline.finetuning.model import _predict
from pipeline.finetuning.options import TASKS, parse
from pipeline.finetuning.result import Trained, best_rate, replaces
from pipeline.settings import check_flags

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


def test_the_learning_rate_with_the_best_median_counts(tmp_path):
    scores = {2e-5: (1, 9, 2), 3e-5: (4, 3, 5), 4e-5: (4, 4, 9)}
    done = [
        Trained(tmp_path, rate, seed, {"f1": score})
        for rate, column in scores.items()
        for seed, score in enumerate(column)
    ]
    assert {trained.learning_rate for trained in best_rate(done, "f1")} == {3e-5}  # the first of two equal ones


def test_several_tasks_and_runs_are_every_pair_once():
    words = ["--", "GLUE", "CoLA", "--run", "a", "b", "a", "--data", "c"]
    cells = [(str(args.run), args.task) for args in parse(words, "")]
    names = [name for name in TASKS if name != "SCM"]
    assert cells == [(run, name) for run in "ab" for name in names]
    with pytest.raises(SystemExit):
        parse([*words, "--out", "d"], "")
    assert len(parse([*words, "--run", "further"], "")) == len(cells) + len({task for _, task in cells})
    (args,) = parse(["fairseq-train", "--", "SCM", "--run", "a", "--data", "c", "--out", "d", "--", "--fp16"], "")
    assert (args.task, args.template, args.flags) == ("SCM", ["fairseq-train"], ["--fp16"])


def test_encoded_sentences_have_the_dictionary_of_the_pretraining(tmp_path):
    run, task = tmp_path / "run", TASKS["RTE"]
    run.mkdir()
    write_json(run / "prepare.json", {"kind": "text", "source": "en", "target": "en", "subwords": "bytes"})
    (run / "dict.txt").write_text("".join(f"{letter} 1\n" for letter in "abc\u2581"))
    sets = {"train": [Example(("ab c", "b"), "entailment")], "valid": [Example(("x", "c"), "not_entailment")]}
    encode(task, sets, run, tmp_path / "data", 10)
    words = Dictionary.load(str(run / "dict.txt"))

    def read(name, dictionary):
        return [dictionary.string(line) for line in data_utils.load_indexed_dataset(str(tmp_path / "data" / name))]

    assert read("input0/train", words) == ["a b \u2581 c"] and read("input1/valid", words) == ["c"]
    assert read("input0/valid", words) == ["<unk>"]
    labels = Dictionary.load(str(tmp_path / "data/label/dict.txt"))
    assert [read(f"label/{split}", labels) for split in sets] == [["entailment"], ["not_entailment"]]
    assert (tmp_path / "data/input1/dict.txt").read_bytes() == (run / "dict.txt").read_bytes()
    assert read_json(tmp_path / "data" / SHORTENED) == {"train": 0, "valid": 0}
    encode(task, sets, run, tmp_path / "data", 8)
    assert read("input0/train", words) == ["a b \u2581"]
    assert read_json(tmp_path / "data" / SHORTENED) == {"train": 1, "valid": 0}


@pytest.mark.parametrize(
    ("lengths", "longest", "kept"),
    [
        ((5,), 7, (5,)),
        ((6,), 7, (5,)),
        ((5, 5), 14, (5, 5)),
        ((9, 2), 14, (8, 2)),
        ((2, 9), 14, (2, 8)),
        ((9, 9), 14, (5, 5)),
        ((9, 9), 13, (5, 4)),
        ((9, 4, 1), 14, (6, 4, 1)),
        ((3, 1, 99), 14, (3, 1, 7)),
        ((1, 0), 6, (1, 0)),
    ],
)
def test_the_longer_sentence_of_a_pair_is_cut(lengths, longest, kept):
    """A pair has four further tokens, ``<s> A </s> </s> B </s>``; of several, each is joined with the first."""
    sentences = [" ".join(f"{name}{i}" for i in range(length)) for name, length in zip("abc", lengths)]
    short = shorten(sentences, longest)
    assert [len(sentence.split()) for sentence in short] == list(kept)
    assert all(sentence.startswith(begin) for sentence, begin in zip(sentences, short))


def test_a_model_without_room_for_a_pair_is_refused():
    with pytest.raises(Failure, match="takes 5 tokens, too few for this task: pretrain it with longer blocks"):
        shorten(["a", "b"], 5)


def test_damaged_files_of_the_pretraining_are_refused(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "dict.txt").write_text("a 1\n")
    prepared = {"kind": "text", "source": "en", "target": "en", "subwords": "bytes", "sha256": {"dict.txt": "0" * 64}}
    write_json(run / "prepare.json", prepared)
    with pytest.raises(
        Failure, match=r"dict\.txt is damaged: its SHA-256 is not that in prepare\.json: run scripts/av"
    ):
        encode(TASKS["RTE"], {"train": [], "valid": []}, run, tmp_path / "data", 10)
    assert not (tmp_path / "data").exists()


def test_flags_that_contradict_the_schedule_are_refused():
    template = [
        "fairseq-train",
        "{data}",
        "--lr",
        "{lr}",
        "--clip-norm",
        "1.0",
        "{regression}",
        "--max-epoch",
        "{epochs}",
    ]
    for flag in ("--lr", "--lr=1", "--max-epoch", "--update-freq", "--init-token", "--max-tok", "--ranking-head-name"):
        with pytest.raises(Failure, match=f"{flag} does not go among the flags of fairseq-train"):
            check_flags([flag, "1"], set_by(template))
    check_flags(["--clip-norm", "0", "--lr-scheduler", "fixed", "--dropout", "0.2"], set_by(template))


@pytest.mark.parametrize("variant", ["../x", "a/b", "a\nb", "a" * 101])
def test_a_variant_that_cannot_name_a_file_is_refused(variant, capsys):
    with pytest.raises(SystemExit, match="2"):
        parse(["x", "--", "RTE", "--run", "r", "--data", "d", "--variant", variant], None)
    assert "--variant is a name of letters, digits, _ and ., not '" in capsys.readouterr().err.splitlines()[-1]


def test_a_result_replaces_one_of_the_same_settings_whose_trainings_it_has():
    def result(*cells, settings="epochs 10"):
        return {"settings": settings, "grid": [{"learning_rate": lr, "seed": seed} for lr, seed in cells]}

    old = result((2e-5, 1), (3e-5, 1))
    assert replaces(old, old) and replaces(result((3e-5, 1), (2e-5, 1), (2e-5, 2)), old)
    assert not replaces(result((2e-5, 1)), old)
    assert not replaces(result((2e-5, 1), (3e-5, 1), settings="epochs 1"), old)
    model, other = ({"pretrained": {"checkpoint": letter * 64, "updates": 9}} for letter in "ab")
    assert replaces({**old, **model}, old) and replaces({**old, **model}, {**old, **model})
    assert not replaces({**old, **model}, {**old, **other})


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_a_training_that_diverged_has_no_predictions(broken):
    def diverged(**_):
        return (torch.tensor([[broken, 1.0]]),)

    with pytest.raises(Failure, match="not finite: give lower --learning-rates"):
        _predict(diverged, {"net_input": {}}, None)
