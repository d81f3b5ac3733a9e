"""Language models end to end: documents to a result file, fine-tuning, data of the wrong kind."""

import json
import shutil

import pytest
import torch

from fairseq_rope.checkpoints.files import load_checkpoint
from pipeline.files import read_json, sha256, write_json
from pipeline.finetuning.finetune import FineTuning, parse
from pipeline.settings import words_in

from ..commands import ROOT, one_line, run, three_sets

pytestmark = pytest.mark.slow

RECIPE = """
extends = "{task}"
archs = ["{arch}"]
[data]
train = "train"
valid = "valid"
tests = ["test"]
[prepare]
workers = 1
{prepare}
[train]
tokens-per-sample = 64
max-tokens = 640
warmup-updates = 2
{side}-embed-dim = 32
{side}-ffn-embed-dim = 32
{side}-layers = 1
{side}-attention-heads = 2
max-update = 6
save-interval-updates = 2
{more}
[score]
average = {average}
"""


def recipe(folder, name, task, arch, side, prepare, average=1, more=""):
    path = folder / f"{name}.toml"
    values = dict(task=task, arch=arch, side=side, prepare=prepare, average=average, more=more)
    path.write_text(RECIPE.format(**values))
    return path


def reproduce(folder, path, corpus, *options):
    return run("scripts/reproduce.sh", path, "--data", corpus, "--out", folder / path.stem, *options)


@pytest.fixture(scope="module")
def masked(corpus, tmp_path_factory):
    """A masked language model of subwords: its recipe, and the output of reproduce.sh."""
    folder = tmp_path_factory.mktemp("masked")
    path = recipe(folder, "mlm", "masked_lm", "tupe_r_mlm_tiny", "encoder", "merges = 100", more="dropout = 0.2")
    done = reproduce(folder, path, corpus)
    assert "perplexity test " in done.stderr and "test set" in done.stdout
    return path, folder / "mlm"


def test_a_causal_model_of_bytes_says_how_many_bits_a_byte_has(corpus, tmp_path):
    what = ("bytes", "language_modeling", "roformer_lm_tiny", "decoder", "subwords = 'bytes'")
    path = recipe(tmp_path, *what, average=2, more="shorten-method = 'truncate'")  # of the training alone
    reproduce(tmp_path, path, corpus)
    info = json.loads((tmp_path / "bytes/data/prepare.json").read_text())
    assert info["kind"] == "text" and info["tokens"] == info["bytes"] and info["documents"]["train"] == 2
    assert info["bytes"]["test"] == (tmp_path / "bytes/data/raw/test.en").stat().st_size
    result = read_json(tmp_path / "bytes/results/bytes-roformer_lm_tiny-seed1.json")
    scores = {key: entry["score"] for key, entry in result["tests"]["test"]["scores"].items()}
    (run,) = (tmp_path / "bytes").glob("*/*/scores/test.gen.txt")
    assert f'"test_wpb": "{info["tokens"]["test"]}"' in run.read_text()  # one batch has the whole text
    assert scores["bits_per_byte"] == pytest.approx(scores["loss"], abs=1e-4)  # of bytes, the same
    assert scores["perplexity"] == pytest.approx(2 ** scores["loss"], rel=4e-4)  # the loss is rounded
    assert 4 < scores["loss"] < 9 and result["training"]["averaged"] == 2  # 8 bits at random
    assert result["curve"]["valid"]["updates"] == [2, 4, 6] and len(set(result["curve"]["valid"]["nll"])) == 3
    assert result["data"]["bytes"] == info["bytes"] and "--task language_modeling" in result["settings"]


def test_a_masked_model_has_the_loss_of_its_last_validation(masked):
    _, out = masked
    result = read_json(out / "results/mlm-tupe_r_mlm_tiny-seed1.json")
    scores, last = result["tests"]["valid"]["scores"], result["curve"]["valid"]["nll"][-1]
    assert scores["loss"]["score"] == pytest.approx(last, abs=0.0011)  # rounded by fairseq
    assert "bits_per_byte" not in scores  # it does not predict every token
    run_folder = out / "tupe_r_mlm_tiny/seed1"
    assert {"checkpoint.pt", "dict.txt", "bpecodes", "prepare.json"} <= {path.name for path in run_folder.iterdir()}


def test_the_masks_of_an_evaluation_are_not_those_of_the_training(masked, tmp_path):
    """The same weights, trained with other masks as far as the checkpoint says."""
    copy = shutil.copytree(masked[1] / "tupe_r_mlm_tiny/seed1", tmp_path / "copy")
    state = load_checkpoint(copy / "checkpoint.pt")
    state["cfg"]["task"] |= {"mask_prob": 0.5, "leave_unmasked_prob": 0.9, "random_token_prob": 0.0, "mask_stdev": 1.0}
    torch.save(state, copy / "checkpoint.pt")
    run("scripts/evaluate.sh", "--run", copy, "--data", masked[1] / "data")
    first, second = (read_json(folder / "scores/test.json") for folder in (masked[1] / "tupe_r_mlm_tiny/seed1", copy))
    assert second["checkpoint"] != first["checkpoint"] and second["scores"] == first["scores"]
    assert second["settings"] == "blocks of 64 tokens, 15% masked with seed 1"


def test_a_test_set_that_came_later_is_evaluated(masked, corpus, tmp_path):
    trained = shutil.copytree(masked[1] / "tupe_r_mlm_tiny/seed1", tmp_path / "run")
    (tmp_path / "later.en").write_text("".join((corpus / "valid.en").read_text().splitlines(keepends=True)[3:20]))
    for merges in (90, 100):
        out = tmp_path / f"data{merges}"
        prepare = ["--test", tmp_path / "later.en", "--merges", merges, "--workers", 1, "--out", out]
        run("scripts/prepare_text.sh", *three_sets(corpus), *prepare)
    evaluate = ["scripts/evaluate.sh", "--run", trained, "--subset", "test1", "--data"]
    one_line(run(*evaluate, tmp_path / "data90", fails=True), "was trained on other data")
    run(*evaluate, tmp_path / "data100")
    assert read_json(trained / "scores/test1.json")["sentences"] == 17


@pytest.fixture(scope="module")
def glue(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glue")
    (folder / "RTE").mkdir()
    for split, count in (("train", 40), ("dev", 9)):
        rows = ["index\tsentence1\tsentence2\tlabel"]
        for number in range(count):
            pair = ("A long line of the sea. " * 9, "The sea.") if number % 2 else ("A dog.", "No sea, no dog.")
            rows.append(f"{number}\t{pair[0]}\t{pair[1]}\t{('not_entailment', 'entailment')[number % 2]}")
        (folder / f"RTE/{split}.tsv").write_text("\n".join(rows) + "\n")
    return folder


def test_a_fine_tuning_tries_its_grid_and_skips_what_is_done(masked, glue, tmp_path):
    pretrained = shutil.copytree(masked[1] / "tupe_r_mlm_tiny/seed1", tmp_path / "model")
    begun = {**read_json(pretrained / "run.json"), "from": "a/b, SHA-256 0"}
    write_json(pretrained / "run.json", begun)
    (tmp_path / "own.toml").write_text("extends = 'glue'\n[train]\ndropout = 0.3\n")
    command = ["scripts/finetune.sh", "RTE", "--run", pretrained, "--data", glue, "--recipe", tmp_path / "own.toml"]
    grid = ["--learning-rates", "1e-3", "2e-5", "--epochs", 1]
    done = run(*command, *grid, "--seeds", 1)
    out = pretrained / "finetuned/RTE"
    result = read_json(out / "own_RTE-tupe_r_mlm_tiny-seed1.json")
    assert [(each["learning_rate"], each["seed"]) for each in result["grid"]] == [(1e-3, 1), (2e-5, 1)]
    assert "RTE --run RUN --data DATA --recipe" in result["run"]["command"]
    assert result["data"] == {"examples": {"train": 40, "valid": 9}}
    assert "24 of 49 examples are shortened" in done.stderr
    assert result["tests"]["RTE"]["sentences"] == 9 and result["run"]["from"] == begun["from"]
    assert "--dropout 0.2" in begun["flags"]  # the recipe's own flags win over those of the pretraining
    assert "--encoder-embed-dim 32 " in result["run"]["flags"] and "--dropout 0.3 " in result["run"]["flags"]
    checkpoint = sha256(pretrained / "checkpoint.pt")
    assert result["pretrained"] == {"checkpoint": checkpoint, "updates": 6, "max_update": 6, "averaged": 1}
    begun_with = f"loading pretrained model from {pretrained / 'checkpoint.pt'}"
    assert begun_with in (out / "lr0.001-seed1/train.log").read_text()
    assert all(0.3 < loss < 3 for loss in result["curve"]["train"]["nll"])  # of a label, not of a token
    predictions = out / "lr0.001-seed1/predictions.txt"
    said = predictions.read_text().splitlines()
    assert len(said) == 9 and set(said) <= {"entailment", "not_entailment"}
    right = sum(label == ("not_entailment", "entailment")[number % 2] for number, label in enumerate(said))
    assert result["grid"][0]["accuracy"] == round(100 * right / 9, 2)
    assert not list(out.glob("*/checkpoints")) and "accuracy" in done.stdout
    for path in (out / "lr2e-05-seed1/predictions.txt", out / "own_RTE-tupe_r_mlm_tiny-seed1.json"):
        path.unlink()  # as after a kill
    again = run(*command, *grid, "--seeds", 1)
    assert again.stderr.count("finetune: done before") == 1 and again.stdout == done.stdout
    assert "not trained to its end" not in again.stderr


def test_a_result_counts_as_finished_by_its_settings_its_grid_and_its_model(masked, glue, tmp_path):
    options = ["RTE", "--data", glue, "--results", tmp_path, "--recipe", "glue_cpu"]

    def tuning(*more):
        model = masked[1] / "tupe_r_mlm_tiny/seed1"
        return FineTuning(model, "RTE", parse([*map(str, [*options, "--run", model, *more])]))

    own, committed = tuning(), read_json(next((ROOT / "results").glob("glue_cpu_RTE-roformer_mlm_small-*.json")))
    others = tuning("--epochs", 1), tuning("--seeds", 1), tuning("--seeds", 1, 2, 3, 4)
    assert not own.is_finished()
    own.sets = {"train": [None] * 2490}  # as many as RTE has
    said = f" {' '.join(words_in(own._flags(3e-4, 2)))} "
    for flag in (
        "--seed 2",
        "--lr 0.0003",
        "--init-token 0",
        "--separator-token 2",
        "--warmup-updates 14",
        "--max-epoch 3",
    ):
        assert f" {flag} " in said
    assert " --total-num-update 234 " in said
    for more, finished in (({}, True), ({"pretrained": {}}, True), ({"pretrained": {"checkpoint": "0"}}, False)):
        write_json(own.file, {**committed, "settings": own.settings, "pretrained": own.model, **more})
        assert own.is_finished() == finished and not any(other.is_finished() for other in others)


def test_data_and_models_of_the_wrong_kind_are_refused_in_one_line(masked, glue, data, trained, tmp_path):
    path, out = masked
    text, model = out / "data", out / "tupe_r_mlm_tiny/seed1"
    other = shutil.copytree(model, tmp_path / "other/tupe_r_mlm_tiny/seed1")
    train = ["scripts/train.sh", "--out", tmp_path / "run", "--data"]
    tune = ["scripts/finetune.sh", "RTE", "--data", glue, "--run"]
    for words, message in (
        ([*train, text, "--arch", "roformer_tiny", "--recipe", "demo"], "has text for language models, not pairs"),
        ([*train, data, "--arch", "tupe_r_mlm_tiny", "--recipe", path], "run scripts/prepare_text.sh"),
        ([*train, text, "--arch", "roformer_lm_tiny", "--recipe", path], "which is another kind of model"),
        (["scripts/translate.sh", model], "language model"),
        (["scripts/evaluate.sh", "--run", trained, "--data", data], "has pairs for translation"),
        ([*tune, trained], "was trained for translation"),
        ([*tune, model, other, "--results", tmp_path], "two runs would write one result file"),
    ):
        one_line(run(*words, fails=True, input="a\n"), message)
