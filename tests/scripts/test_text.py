"""Language models end to end: documents to a result file, fine-tuning, data of the wrong kind."""

import json
import shutil

import pytest
import torch

from fairseq_rope.checkpoints.files import load_checkpoint
from pipeline.files import read_json, sha256
from pipeline.finetuning.glue import STSB
from pipeline.lock import locked
from pipeline.results.file import read_result

from ..commands import one_line, run

pytestmark = pytest.mark.slow

SIZE = ["embed-dim 32", "ffn-embed-dim 32", "layers 1", "attention-heads 2"]
RECIPE = """
task = "{task}"
train = "train"
valid = "valid"
tests = ["test"]
prepare = "{prepare} --workers 1"
flags = "--tokens-per-sample 64 --max-tokens 640 --warmup-updates 2 {size}"
max_update = 6
save_every = 2
average = {average}
archs = ["{arch}"]
"""


def recipe(folder, name, task, arch, side, prepare, average=1):
    size = " ".join(f"--{side}-{each}" for each in SIZE)
    path = folder / f"{name}.toml"
    path.write_text(RECIPE.format(task=task, arch=arch, size=size, prepare=prepare, average=average))
    return path


def reproduce(folder, path, corpus, *options, **kwargs):
    return run("scripts/reproduce.sh", path, "--data", corpus, "--out", folder / path.stem, *options, **kwargs)


@pytest.fixture(scope="module")
def masked(corpus, tmp_path_factory):
    """A masked language model of subwords: its recipe, and the output of reproduce.sh."""
    folder = tmp_path_factory.mktemp("masked")
    path = recipe(folder, "mlm", "masked_lm", "tupe_r_mlm_tiny", "encoder", "--merges 100")
    done = reproduce(folder, path, corpus)
    assert "perplexity test " in done.stderr and "test set" in done.stdout
    return path, folder / "mlm"


def test_a_causal_model_of_bytes_says_how_many_bits_a_byte_has(corpus, tmp_path):
    path = recipe(tmp_path, "bytes", "language_modeling", "roformer_lm_tiny", "decoder", "--subwords bytes", average=2)
    path.write_text(
        path.read_text().replace('flags = "', 'flags = "--shorten-method truncate ')
    )  # of the training alone
    first = reproduce(tmp_path, path, corpus)
    info = json.loads((tmp_path / "bytes/data/prepare.json").read_text())
    assert info["kind"] == "text" and info["tokens"] == info["bytes"] and info["documents"]["train"] == 2
    assert info["bytes"]["test"] == (tmp_path / "bytes/data/raw/test.en").stat().st_size
    result = read_result(tmp_path / "bytes/results/bytes-roformer_lm_tiny-seed1.json")
    scores = {key: entry["score"] for key, entry in result["tests"]["test"]["scores"].items()}
    (run,) = (tmp_path / "bytes").glob("*/*/scores/test.gen.txt")
    assert f'"test_wpb": "{info["tokens"]["test"]}"' in run.read_text()  # one batch has the whole text
    assert scores["bits_per_byte"] == pytest.approx(scores["loss"], abs=1e-4)  # of bytes, the same
    assert scores["perplexity"] == pytest.approx(2 ** scores["loss"], rel=4e-4)  # the loss is rounded
    assert 4 < scores["loss"] < 9 and result["training"]["averaged"] == 2  # 8 bits at random
    assert result["curve"]["valid"]["updates"] == [2, 4, 6] and len(set(result["curve"]["valid"]["nll"])) == 3
    assert result["data"]["bytes"] == info["bytes"] and "--task language_modeling" in result["settings"]
    again = reproduce(tmp_path, path, corpus)
    assert (
        "finished before" in again.stderr and again.stdout.split("\nRecipe ")[1] == first.stdout.split("\nRecipe ")[1]
    )


def test_a_masked_model_has_the_loss_of_its_last_validation(masked):
    _, out = masked
    result = read_result(out / "results/mlm-tupe_r_mlm_tiny-seed1.json")
    scores = result["tests"]["valid"]["scores"]
    assert scores["loss"]["score"] == pytest.approx(
        result["curve"]["valid"]["nll"][-1], abs=0.0011
    )  # rounded by fairseq
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


@pytest.fixture(scope="module")
def glue(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glue")
    for name, columns in (("RTE", "index\tsentence1\tsentence2\tlabel"), ("STS-B", "\t".join(STSB))):
        (folder / name).mkdir()
        for split, count in (("train", 40), ("dev", 9)):
            rows = [columns]
            for number in range(count):
                pair = ("A long line of the sea. " * 9, "The sea.") if number % 2 else ("A dog.", "No sea, no dog.")
                label = ("not_entailment", "entailment")[number % 2]
                if name == "STS-B":
                    pair, label = ("\t" * 6 + pair[0], pair[1]), f"{number % 50 / 10}"
                rows.append(f"{number}\t{pair[0]}\t{pair[1]}\t{label}")
            (folder / name / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    return folder


def test_a_fine_tuning_tries_its_grid_and_skips_what_is_done(masked, glue, tmp_path):
    pretrained = masked[1] / "tupe_r_mlm_tiny/seed1"
    command = ["scripts/finetune.sh", "RTE", "--run", pretrained, "--data", glue, "--out", tmp_path / "out"]
    grid = ["--learning-rates", "1e-3 2e-5", "--epochs", 1]
    done = run(*command, *grid, "--seeds", 1)
    result = read_result(tmp_path / "out/glue_RTE-tupe_r_mlm_tiny-seed1.json")
    assert [(each["learning_rate"], each["seed"]) for each in result["grid"]] == [(1e-3, 1), (2e-5, 1)]
    assert "RTE --run RUN --data DATA --out OUT --learn" in result["run"]["command"]
    assert result["data"] == {"examples": {"train": 40, "valid": 9}, "shortened": {"train": 20, "valid": 4}}
    assert result["tests"]["RTE"]["sentences"] == 9 and "--encoder-embed-dim 32" in result["run"]["flags"]
    checkpoint = sha256(pretrained / "checkpoint.pt")
    assert result["pretrained"] == {"checkpoint": checkpoint, "updates": 6, "max_update": 6, "averaged": 1}
    assert all(0.3 < loss < 3 for loss in result["curve"]["train"]["nll"])  # of a label, not of a token
    predictions = tmp_path / "out/lr0.001-seed1/predictions.txt"
    said = predictions.read_text().splitlines()
    assert len(said) == 9 and set(said) <= {"entailment", "not_entailment"}
    right = sum(label == ("not_entailment", "entailment")[number % 2] for number, label in enumerate(said))
    assert result["grid"][0]["accuracy"] == round(100 * right / 9, 2)
    assert not list((tmp_path / "out").glob("*/checkpoints")) and "accuracy" in done.stdout
    (tmp_path / "out/lr2e-05-seed1/predictions.txt").unlink()  # as after a kill
    again = run(*command, *grid, "--seeds", 1)
    assert again.stderr.count("finetune: done before") == 1 and again.stdout == done.stdout
    assert "not trained to its end" not in again.stderr


def test_a_fine_tuning_that_ends_early_fails_and_a_model_so_far_is_called_that(masked, glue, tmp_path):
    model = shutil.copytree(masked[1] / "tupe_r_mlm_tiny/seed1", tmp_path / "model")
    (model / ".stamps/train.json").unlink()  # as before the end of the training
    command = ["scripts/finetune.sh", "RTE", "--run", model, "--data", glue, "--learning-rates", "1e-3", "--seeds", 1]
    failed = run(*command, "--epochs", 3, "--", "--stop-min-lr", "9e-4", fails=True)
    assert f"{model} is not trained to its end" in failed.stderr
    assert "ended after 1 of 3 epochs: leave out the flags that end it early" in failed.stderr.splitlines()[-1]
    assert not list((model / "finetuned").glob("*/*.json"))


@pytest.mark.slow
def test_a_fine_tuning_of_several_tasks_goes_on_behind_one_that_fails(masked, glue, tmp_path):
    model = shutil.copytree(masked[1] / "tupe_r_mlm_tiny/seed1", tmp_path / "tupe_r_mlm_tiny-wide/seed1")
    options = ["--learning-rates", "1e-3", "--epochs", 1, "--seeds", 1, "--results", tmp_path / "results"]
    with locked(model / "finetuned/RTE"):
        failed = run("scripts/finetune.sh", "RTE", "STS-B", "--run", model, "--data", glue, *options, fails=True)
    assert "1 of 2 are not finished" in failed.stderr.splitlines()[-1] and "Pearson" in failed.stdout
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["glue_STS-B-tupe_r_mlm_tiny-wide-seed1.json"]
    assert "tupe_r_mlm_tiny (wide) pretrained with seed 1" in failed.stdout  # a run of a variant has its name
    models = ["--run", model, shutil.copytree(model, tmp_path / "other")]
    alike = run("scripts/finetune.sh", "RTE", *models, "--data", glue, *options, "--variant", "wide", fails=True)
    one_line(alike, f"would both write {tmp_path}/results/glue_RTE-tupe_r_mlm_tiny-wide-seed1.json")


def test_data_and_models_of_the_wrong_kind_are_refused_in_one_line(masked, glue, data, trained, tmp_path):
    path, out = masked
    text, model = out / "data", out / "tupe_r_mlm_tiny/seed1"
    train = ["scripts/train.sh", "--out", tmp_path / "run"]
    failed = run(*train, "--data", text, "--arch", "roformer_tiny", "--recipe", "demo", fails=True)
    one_line(failed, "has text for language models, not pairs for translation")
    failed = run(*train, "--data", data, "--arch", "tupe_r_mlm_tiny", "--recipe", path, fails=True)
    one_line(failed, "has pairs for translation, and language models need text: run scripts/prepare_text.sh")
    failed = run(*train, "--data", text, "--arch", "tupe_r_mlm_tiny", "--recipe", "glue", fails=True)
    one_line(failed, "the recipe glue is for scripts/finetune.sh")
    one_line(run("scripts/reproduce.sh", "glue", fails=True), "the recipe glue is for scripts/finetune.sh")
    failed = run(*train, "--data", text, "--arch", "roformer_lm_tiny", "--recipe", "mlm_demo", fails=True)
    one_line(failed, "the task masked_lm cannot train roformer_lm_tiny, which is another kind of model")
    failed = run("scripts/prepare_text.sh", "--train", text, "--hold-out", 5, "--out", model, fails=True)
    one_line(failed, f"{model} is the folder of a training, and its subwords would be lost: choose another --out")
    one_line(run("scripts/translate.sh", model, fails=True, input="a\n"), "language model")
    one_line(run("scripts/score.sh", "--run", model, "--data", text, fails=True), "has text for language models")
    one_line(run("scripts/evaluate.sh", "--run", trained, "--data", data, fails=True), "has pairs for translation")
    failed = run("scripts/evaluate.sh", "--run", model, "--data", text, "--subset", "test7", fails=True)
    one_line(failed, "has no test set 'test7'; there are: test train valid")
    tune = ["scripts/finetune.sh", "STS-B", "--data", glue]
    one_line(
        run(*tune, "--run", trained, fails=True), "was not trained by scripts/train.sh on text: give the output of"
    )
    one_line(run(*tune, "--run", model, "--recipe", "demo", fails=True), "the recipe demo is for scripts/train.sh")
    one_line(
        run(*tune, "--run", model, "--learning-rates", "0", fails=True), "--learning-rates: must be a number above 0"
    )
    one_line(run(*tune, "--run", model, "--seeds", "x", fails=True), "--seeds: must be a whole number")
    damaged = shutil.copytree(model, tmp_path / "damaged")
    (damaged / "prepare.json").write_text('{"kind": "poems"}')
    one_line(run(*tune, "--run", damaged, fails=True), "has 'poems' as 'kind', which must be 'text'")


@pytest.mark.parametrize(
    "options,message",
    [
        (["--train", "{0}"], "give --valid and --test, or --hold-out PERCENT"),
        (["--train", "{0}", "--hold-out", "5", "--test", "{0}"], "--hold-out is in place of --valid and --test"),
        (["--train", "{0}", "--hold-out", "0"], "must be a percentage from 0.001 to 25"),
        (
            ["--train", "{0}", "--hold-out", "5", "--subwords", "bytes", "--merges", "9"],
            "--merges is for --subwords bpe",
        ),
        (["--train", "{0}/none", "--hold-out", "5"], "no such file or folder"),
        (["--train", "{0}", "--valid", "{0}", "--test", "{0}"], "another set has this text too"),
        (["--train", "{0}", "--hold-out", "5", "--language", "a/b"], "must be a language code"),
        (["--train", "{1}", "--hold-out", "5"], "is in the folder of the text"),
        (["--hold-out", "5"], "the following arguments are required: --train"),
    ],
)
def test_wrong_options_of_prepare_text_give_one_line_and_leave_nothing(tmp_path, options, message):
    (tmp_path / "a.txt").write_text("text\n")
    words = [word.format(tmp_path / "a.txt", tmp_path) for word in options]
    one_line(run("scripts/prepare_text.sh", *words, "--out", tmp_path / "out", fails=True), message)
    assert not (tmp_path / "out").exists()
