"""The system through its command lines: fairseq's tools with --user-dir, and the scripts, on a small corpus."""

import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import fairseq_rope  # noqa: F401  (lets safe loading read checkpoints)

ROOT = Path(__file__).parent.parent
USER_DIR = ROOT / "fairseq_rope"
# the tools of the environment that runs the tests
ENVIRONMENT = {
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "VENV": str(Path(sys.executable).parent.parent),
    "PYTHONWARNINGS": "ignore",
}
SMALL = ["--encoder-layers", "1", "--decoder-layers", "1", "--encoder-embed-dim", "32", "--decoder-embed-dim", "32"]
TRAIN = [
    *SMALL,
    *["--share-all-embeddings", "--optimizer", "adam", "--lr", "0.005", "--criterion", "label_smoothed_cross_entropy"],
    *["--max-tokens", "600", "--log-format", "json", "--seed", "3", "--no-epoch-checkpoints"],
]


def run(*command, cwd=ROOT, fails=False, **kwargs):
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, **kwargs)
    assert (done.returncode != 0) == fails, done.stdout[-2000:] + done.stderr[-4000:]
    return done


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The first pairs of the demo corpus, under the same names."""
    folder = tmp_path_factory.mktemp("corpus")
    for name, count in (("train", 400), ("valid", 21), ("test", 21), ("test_long", 9)):
        for lang in ("en", "de"):
            lines = (ROOT / f"data/demo/{name}.{lang}").read_text(encoding="utf-8").splitlines(keepends=True)
            (folder / f"{name}.{lang}").write_text("".join(lines[:count]), encoding="utf-8")
    return folder


def prepare(corpus, out, **kwargs):
    return run(
        *["scripts/prepare.sh", "--train", corpus / "train", "--valid", corpus / "valid", "--test", corpus / "test"],
        *["--test", corpus / "test_long", "--merges", 100, "--ratio", 3, "--workers", 1, "--out", out],
        **kwargs,
    )


@pytest.fixture(scope="module")
def data(corpus, tmp_path_factory):
    out = tmp_path_factory.mktemp("data") / "prepared"
    prepare(corpus, out)
    return out


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    """A run of train.sh and average.sh."""
    out = tmp_path_factory.mktemp("run") / "roformer"
    options = ["--data", data, "--arch", "roformer_tiny", "--recipe", "demo", "--out", out]
    extra = ["--max-update", 12, "--save-every", 2, "--", *SMALL, "--max-tokens", 600]
    run("scripts/train.sh", *options, *extra)
    run("scripts/average.sh", "--run", out, "--data", data)
    return out


def fairseq(tool, data, *options, **kwargs):
    return run(f"fairseq-{tool}", data / "bin", "--user-dir", USER_DIR, *options, **kwargs)


def hypotheses(output):
    rows = [line.split("\t") for line in output.splitlines() if line.startswith("H-")]
    return {row[0]: row[2] for row in rows}


def parameters(path):
    return torch.load(path, weights_only=True)["model"]


def test_a_run_that_is_resumed_equals_one_that_was_not_bit_by_bit(data, tmp_path):
    common = ["--arch", "roformer_tiny", *TRAIN, "--save-interval-updates", "4"]
    fairseq("train", data, *common, "--max-update", 8, "--save-dir", tmp_path / "whole")
    fairseq("train", data, *common, "--max-update", 4, "--save-dir", tmp_path / "parts")
    fairseq("train", data, *common, "--max-update", 8, "--save-dir", tmp_path / "parts")
    whole, parts = (parameters(tmp_path / name / "checkpoint_last.pt") for name in ("whole", "parts"))
    assert whole.keys() == parts.keys()
    assert all(torch.equal(value, parts[name]) for name, value in whole.items())


def test_a_run_with_bleu_in_validation_resumes(data, tmp_path):
    """Its checkpoints hold NumPy numbers, which safe loading would refuse."""
    bleu = ["--eval-bleu", "--eval-bleu-args", '{"beam": 1, "max_len_b": 5}', "--eval-bleu-detok", "space"]
    common = ["--arch", "roformer_tiny", *TRAIN, *bleu, "--save-dir", tmp_path]
    fairseq("train", data, *common, "--max-update", 2)
    fairseq("train", data, *common, "--max-update", 4)
    fairseq("generate", data, "--path", tmp_path / "checkpoint_last.pt", "--batch-size", 9)


@pytest.mark.parametrize("options", [["--fp16", "--fp16-init-scale", "4"], ["--bf16"], ["--checkpoint-activations"]])
def test_training_options(data, tmp_path, options):
    command = ["--arch", "roformer_tiny", *TRAIN, "--max-update", 2, "--save-dir", tmp_path, *options]
    log = fairseq("train", data, *command)
    assert '"valid_num_updates": "2"' in log.stderr + log.stdout
    assert parameters(tmp_path / "checkpoint_last.pt")["encoder.embed_tokens.weight"].isfinite().all()


def test_preparation_keeps_its_numbers(corpus, data):
    info = json.loads((data / "prepare.json").read_text())
    assert info["pairs"] == {"train": 400, "valid": 21, "test": 21, "test1": 9} and info["merges"] == "100"
    kept = info["cleaned"]["kept"]
    assert kept + sum(n for name, n in info["cleaned"].items() if name.startswith("dropped")) == 400
    assert info["binarised"]["train"]["en"]["sentences"] == kept
    assert info["vocabulary"] == len((data / "bin/dict.en.txt").read_text(encoding="utf-8").splitlines())
    words = sum(len(line.split()) for line in (data / "tok/train.de").read_text(encoding="utf-8").split("\n"))
    assert info["bpe"]["words"]["train.de"]["tokens"] == words
    digest = hashlib.sha256((corpus / "train.en").read_bytes()).hexdigest()
    assert info["sha256"]["train.en"] == digest and "subword-nmt" in info["versions"]


def test_a_relative_user_dir_works_from_the_root_of_the_clone(data, tmp_path):
    command = ["--arch", "transformer_learned_tiny", *TRAIN, "--max-update", 1, "--save-dir", tmp_path]
    run("fairseq-train", data / "bin", "--user-dir", "fairseq_rope", *command)


TOY = '''
"""A toy: nearer keys are more alike, by a learned slope per layer."""

from dataclasses import dataclass, field

import torch
from torch import nn

from .base import PositionEncoding
from .relative import distances


@dataclass(frozen=True)
class ToyOptions:
    slope: float = field(default=0.5, metadata={"help": "initial slope per token"})


class Slope(nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = nn.Parameter(torch.tensor([slope]))


class ToyEncoding(PositionEncoding):
    Options = ToyOptions
    prefix = "toy"

    def build_layer(self, attention):
        return Slope(self.options.slope)

    def prepare(self, query, key):
        return {"distance": distances(query, key)[:, None]}

    def logit_bias(self, q, k, layer, **context):
        return layer.slope * context["distance"]
'''


def test_a_new_encoding_takes_one_file_one_registry_line_and_one_test_row(data, tmp_path):
    """Flags, architectures of every size and the contract tests follow; it trains through fairseq-train."""
    for name in ("fairseq_rope", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "fairseq_rope/positions/toy.py").write_text(TOY)
    for file, before, line in (
        ("fairseq_rope/positions/__init__.py", "from .tupe", "from .toy import ToyEncoding\n"),
        ("fairseq_rope/positions/__init__.py", '    "none"', '    "toy": ToyEncoding,\n'),
        (
            "tests/positions/test_paper_cases.py",
            '    "none"',
            '    "toy": Case(lambda at, i, j: _plain(at, i, j) + at.layer.slope[0] * (j - i)),\n',
        ),
    ):
        text = (tmp_path / file).read_text()
        assert text.count(f"\n{before}") == 1
        (tmp_path / file).write_text(text.replace(f"\n{before}", f"\n{line}{before}"))
    environment = {**ENVIRONMENT, "PYTHONPATH": str(tmp_path)}

    def run_there(*command):
        command = [str(c) for c in command]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    tests = run_there(sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "tests/positions", "-k", "toy")
    for name in ("full_pass_equals_step_by_step", "every_parameter_gets_a_gradient", "equals_the_papers_equation"):
        assert any(name in line and "PASSED" in line for line in tests.splitlines()), name
    for size in ("tiny", "big"):
        assert f"transformer_toy_{size} " in run_there(sys.executable, "-m", "fairseq_rope")
    train = ["--user-dir", tmp_path / "fairseq_rope", "--arch", "transformer_toy_tiny", "--toy-slope", 0.25, *TRAIN]
    run_there("fairseq-train", data / "bin", *train, "--max-update", 1, "--save-dir", tmp_path / "run")
    trained = parameters(tmp_path / "run/checkpoint_last.pt")["encoder.layers.0.self_attn.position.slope"]
    assert trained.item() != 0.25 and abs(trained.item() - 0.25) < 0.02


def test_an_absolute_user_dir_works_from_another_folder(data, tmp_path):
    command = ["--arch", "roformer_tiny", *TRAIN, "--max-update", 1, "--save-dir", tmp_path / "run"]
    options = ["--rope-layout", "half", "--rope-dim", 4, "--rope-base", 500, "--decoder-position", "sinusoidal"]
    fairseq("train", data, *command, *options, cwd=tmp_path)
    saved = torch.load(tmp_path / "run/checkpoint_last.pt", weights_only=True)["cfg"]["model"]
    assert (saved.rope_layout, saved.rope_dim, saved.rope_base) == ("half", 4, 500.0)
    assert (saved.encoder_position, saved.decoder_position) == ("rope", "sinusoidal")


def test_generate_interactive_validate_and_translate_agree(data, trained, corpus):
    path = ["--path", trained / "checkpoint.pt"]
    search = ["--beam", 4, "--lenpen", 0.6, "--required-batch-size-multiple", 1]
    generated = hypotheses(fairseq("generate", data, *path, *search, "--post-process", "subword_nmt").stdout)
    assert len(generated) == 21
    source = (data / "bpe/test.en").read_text()
    interactive = fairseq(
        *["interactive", data, *path, *search[:4], "--post-process", "subword_nmt", "--buffer-size", 30],
        input=source,
    ).stdout
    assert hypotheses(interactive) == generated
    fairseq("validate", data, *path, "--task", "translation", "--max-tokens", 900, "--valid-subset", "valid")

    run("scripts/score.sh", "--run", trained, "--data", data)
    scored = (trained / "scores/test.hyp.de").read_text()
    raw = (corpus / "test.en").read_text()
    translated = run("scripts/translate.sh", trained, input="\n" + raw).stdout
    assert translated == "\n" + scored  # an empty line stays empty


def test_a_checkpoint_in_the_other_rope_layout_translates_the_same(data, trained, tmp_path):
    convert = [sys.executable, "-m", "fairseq_rope.tools.rope_layout"]
    run(*convert, trained / "checkpoint.pt", "--to", "half", "--out", tmp_path / "half.pt")
    search = ["--required-batch-size-multiple", 1, "--beam", 2, "--batch-size", 7]
    outputs = [
        hypotheses(fairseq("generate", data, "--path", path, *search).stdout)
        for path in (trained / "checkpoint.pt", tmp_path / "half.pt")
    ]
    assert len(outputs[0]) == 21 and outputs[0] == outputs[1]
    again = run(*convert, tmp_path / "half.pt", "--to", "half", "--out", tmp_path / "x.pt", fails=True)
    assert "in the layout half already" in again.stderr and not (tmp_path / "x.pt").exists()


def test_alignments_are_printed_when_asked_for(data, trained):
    options = ["--path", trained / "checkpoint.pt", "--batch-size", 3]
    assert "\nA-" in fairseq("generate", data, *options, "--print-alignment", "hard").stdout
    assert "\nA-" not in fairseq("generate", data, *options).stdout


def test_from_python(data, trained):
    code = (
        "from fairseq_rope import RoFormerModel; import sys;"
        "m = RoFormerModel.from_pretrained("
        "sys.argv[1], 'checkpoint.pt', sys.argv[2], tokenizer='moses', bpe='subword_nmt');"
        "print(repr(m.translate('The dog sees the cat.', beam=2)))"
    )
    assert run(sys.executable, "-c", code, trained, data / "bin").stdout.strip().startswith(("'", '"'))


def test_score_names_every_figure(data, trained):
    out = run("scripts/score.sh", "--run", trained, "--data", data, "--subset", "test1").stdout
    result = json.loads((trained / "scores/test1.json").read_text())
    assert result["sentences"] == 9
    assert set(result["scores"]) == {
        *["sacrebleu", "bleu_moses", "bleu_moses_compound_split", "chrf", "bleu_fairseq_training_tokens"]
    }
    assert "sacreBLEU signature: nrefs:1|case:mixed|eff:no|tok:13a" in out


def test_steps_that_were_done_are_skipped_and_changed_settings_redo_them(corpus, data, trained, tmp_path):
    assert "done before" in prepare(corpus, data).stderr
    changed = run(
        *["scripts/prepare.sh", "--train", corpus / "train", "--valid", corpus / "valid", "--test", corpus / "test"],
        *["--merges", 50, "--ratio", 3, "--out", tmp_path / "a"],
    ).stderr
    assert "done before" not in changed
    again = run(
        *["scripts/prepare.sh", "--train", corpus / "train", "--valid", corpus / "valid", "--test", corpus / "test"],
        *["--merges", 60, "--ratio", 3, "--out", tmp_path / "a"],
    ).stderr
    assert again.count("done before") == 2  # the copy and the tokens do not depend on the merges
    options = ["--data", data, "--arch", "roformer_tiny", "--recipe", "demo", "--out", trained]
    rest = ["--max-update", 12, "--save-every", 2, "--", *SMALL, "--max-tokens", 600]
    assert "done before" in run("scripts/train.sh", *options, *rest).stderr


def test_train_keeps_what_the_run_was_made_with(trained):
    info = json.loads((trained / "run.json").read_text())
    assert info["arch"] == "roformer_tiny" and info["seed"] == "1"
    assert "--arch roformer_tiny" in info["command"] and "torch" in info["versions"]


@pytest.mark.parametrize("script", sorted(p.name for p in (ROOT / "scripts").glob("*.sh") if p.name != "common.sh"))
def test_help_and_unknown_options(script):
    assert "Usage: scripts/" in run(f"scripts/{script}", "--help").stdout
    if script not in ("test.sh", "demo.sh"):  # these pass options on
        arguments = ["demo"] if script == "reproduce.sh" else []
        failed = run(f"scripts/{script}", *arguments, "--nonsense", fails=True)
        assert failed.returncode == 2
        assert failed.stderr.count("\n") == 1 and "unknown option '--nonsense'" in failed.stderr


def one_line(failed, *parts):
    lines = [line for line in failed.stderr.splitlines() if not line.startswith("[")]  # without the steps' names
    assert len(lines) == 1 and "error: " in lines[0], failed.stderr
    for part in parts:
        assert part in lines[0]


@pytest.mark.parametrize(
    "kind,message",
    [
        ("lines", "the two sides must be aligned"),
        ("utf-8", "line 3: not UTF-8"),
        ("empty", "are empty"),
        ("missing", "train.de not found"),
    ],
)
def test_prepare_refuses_bad_text_and_leaves_nothing(corpus, tmp_path, kind, message):
    bad = tmp_path / "bad"
    shutil.copytree(corpus, bad)
    file = bad / "train.de"
    if kind == "missing":
        file.unlink()
    elif kind == "empty":
        file.write_bytes(b"")
        (bad / "train.en").write_bytes(b"")
    elif kind == "lines":
        file.write_bytes(file.read_bytes() + b"noch eine\n")
    else:
        file.write_bytes(b"a\nb\n\xff\n")
    one_line(prepare(bad, tmp_path / "out", fails=True), message)
    left = [p for p in (tmp_path / "out").rglob("*") if p.is_file()] if (tmp_path / "out").exists() else []
    assert left == []


def test_wrong_calls_give_one_line(data, trained, tmp_path):
    train = ["scripts/train.sh", "--data", data, "--out", tmp_path / "run"]
    one_line(run(*train, "--arch", "rofromer_base", fails=True), "unknown architecture 'rofromer_base'")
    one_line(
        run(*train, "--arch", "roformer_tiny", "--recipe", "nope", fails=True), "unknown recipe 'nope'; there are: demo"
    )
    one_line(run(*train[:-1], tmp_path / "run", "--arch", "roformer_tiny", "--seed", "x", fails=True), "--seed must be")
    odd = ["--arch", "roformer_tiny", "--", "--encoder-embed-dim", 28, "--decoder-embed-dim", 28]
    one_line(run(*train, *odd, fails=True), "RoPE rotates pairs of channels and needs an even dimension, but it is 7")
    one_line(run(*train, "--arch", "roformer_tiny", "--", "--rope-bass", 3, fails=True), "--rope-bass")
    for wrong, message in (
        (["--encoder-position", "rotten"], "invalid choice: 'rotten' (choose from"),
        (["--encoder-position", "rotten"], "tupe_a"),
        (["--shaw-clip", 0, "--decoder-position", "shaw"], "--shaw-clip must be at least 1 and at most 65536, not 0"),
        (["--t5-buckets", 8], "--t5-buckets belongs to the encoding t5, which neither side uses"),
        (["--decoder-position", "linear", "--attention-dropout", 0.1], "leave --attention-dropout at 0"),
    ):
        one_line(run(*train, "--arch", "roformer_tiny", "--", *wrong, fails=True), message)
    missing = ["--data", tmp_path / "nowhere", "--out", tmp_path / "x", "--arch", "roformer_tiny"]
    one_line(run("scripts/train.sh", *missing, fails=True), "has no prepared data")
    one_line(
        run("scripts/score.sh", "--run", trained, "--data", data, "--subset", "tset", fails=True), "no test set 'tset'"
    )
    one_line(run("scripts/translate.sh", tmp_path, fails=True, input="x\n"), "no such checkpoint")
    one_line(
        run("scripts/average.sh", "--run", trained, "--data", data, "--last", 99, fails=True), "99 are to be averaged"
    )
    one_line(run("scripts/reproduce.sh", "demo", "--data", tmp_path / "nowhere", fails=True), "not found")


def test_a_missing_tool_is_named_with_the_remedy(corpus, tmp_path):
    bare = {"PATH": "/usr/bin:/bin", "VENV": str(tmp_path / "none")}
    command = ["bash", "scripts/score.sh", "--run", "x", "--data", "y"]
    done = subprocess.run(command, cwd=ROOT, env=bare, capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "not found: run scripts/install.sh" in done.stderr


class Malicious:
    def __reduce__(self):
        return os.system, ("touch harmed",)


@pytest.mark.parametrize("kind", ["truncated", "malicious"])
def test_bad_checkpoints_are_refused_by_the_scripts(data, trained, tmp_path, kind):
    copy = tmp_path / "run"
    shutil.copytree(trained, copy)
    good = (trained / "checkpoint.pt").read_bytes()
    bad = good[: len(good) // 2] if kind == "truncated" else pickle.dumps({"model": Malicious()})
    (copy / "checkpoint.pt").write_bytes(bad)
    shutil.rmtree(copy / "scores", ignore_errors=True)
    for command in (["scripts/score.sh", "--run", copy, "--data", data], ["scripts/translate.sh", copy]):
        one_line(run(*command, input="x\n", fails=True), "checkpoint.pt: ")
    assert not (copy / "scores/test.json").exists() and not (ROOT / "harmed").exists()


@pytest.mark.skipif(torch.__version__ < "2.6", reason="before torch 2.6 fairseq's own loading is not safe")
def test_fairseq_itself_refuses_a_malicious_checkpoint(data, tmp_path):
    torch.save({"model": Malicious()}, tmp_path / "bad.pt")
    failed = fairseq("generate", data, "--path", tmp_path / "bad.pt", cwd=tmp_path, fails=True)
    assert "Weights only load failed" in failed.stderr
    assert not (tmp_path / "harmed").exists()


def test_what_belongs_together_stays_together(corpus, data, trained, tmp_path):
    other = tmp_path / "other"
    run(
        *["scripts/prepare.sh", "--train", corpus / "train", "--valid", corpus / "valid", "--test", corpus / "test"],
        *["--merges", 30, "--ratio", 3, "--out", other],
    )
    for script in ("average.sh", "score.sh"):
        failed = run(f"scripts/{script}", "--run", trained, "--data", other, fails=True)
        one_line(failed, "was trained on other data")
    (trained / "checkpoint.pt").unlink()  # the stamp alone does not make a step done
    run("scripts/average.sh", "--run", trained, "--data", data)
    assert (trained / "checkpoint.pt").exists()
    fewer = ["--data", data, "--arch", "roformer_tiny", "--recipe", "demo", "--out", f"{trained}/", "--save-every", 2]
    extra = ["--", *SMALL, "--max-tokens", 600]
    one_line(run("scripts/train.sh", *fewer, "--max-update", 6, *extra, fails=True), "trained for 12 updates already")
    one_line(run("scripts/train.sh", *fewer, "--", "--seed", 7, fails=True), "--seed does not go behind --")


def test_a_damaged_last_checkpoint_is_repaired(data, tmp_path):
    out = tmp_path / "run"
    options = ["--data", data, "--arch", "roformer_tiny", "--out", out, "--save-every", 2]
    extra = ["--", *SMALL, "--max-tokens", 600]
    run("scripts/train.sh", *options, "--max-update", 4, *extra)
    last = out / "checkpoints/checkpoint_last.pt"
    last.write_bytes(last.read_bytes()[:1000])
    assert (
        "damaged: going back to checkpoint_1_4.pt"
        in run("scripts/train.sh", *options, "--max-update", 6, *extra).stderr
    )
    assert (out / "checkpoints/checkpoint_1_6.pt").exists()


def test_a_killed_training_continues(data, tmp_path):
    out = tmp_path / "run"
    options = ["--data", data, "--arch", "roformer_tiny", "--recipe", "demo", "--out", out, "--save-every", 2]
    extra = ["--", *SMALL, "--max-tokens", 600]
    run("scripts/train.sh", *options, "--max-update", 4, *extra)
    (out / ".stamps/train").unlink()  # as after a kill: checkpoints, but no stamp
    log = (out / "train.log").read_text()
    run("scripts/train.sh", *options, "--max-update", 6, *extra)
    assert "Loaded checkpoint" in (out / "train.log").read_text()[len(log) :]
    assert (out / "checkpoints/checkpoint_1_6.pt").exists()
