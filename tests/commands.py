"""What the tests of command lines share: fairseq's tools with --user-dir and the scripts, run as a user would."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import torch

from fairseq_rope.__main__ import main

from .processes import preloaded

ROOT = Path(__file__).parent.parent
USER_DIR = ROOT / "fairseq_rope"
# the tools of the environment that runs the tests
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    **os.environ,
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "VENV": str(Path(sys.executable).parent.parent),
    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "scripts")]),
    "PYTHONWARNINGS": "ignore",
}
SMALL = ["--encoder-layers", "1", "--decoder-layers", "1", "--encoder-embed-dim", "32", "--decoder-embed-dim", "32"]
TRAIN = [
    *SMALL,
    *["--share-all-embeddings", "--optimizer", "adam", "--lr", "0.005", "--criterion", "label_smoothed_cross_entropy"],
    *["--max-tokens", "600", "--log-format", "json", "--seed", "3", "--no-epoch-checkpoints"],
]


def run(*command, cwd=ROOT, env=None, fails=False, input=None):
    """Runs a command as a user would, without the seconds that the imports of Python's take."""
    words = [str(word) for word in command]
    environ = env or {**ENVIRONMENT, **preloaded()}
    done = subprocess.run(words, cwd=cwd, env=environ, capture_output=True, text=True, input=input)
    assert (done.returncode != 0) == fails, done.stdout[-2000:] + done.stderr[-4000:]
    return done


def start(*command, **options):
    """Starts a command that the test goes on beside, in a group of its own, with pipes of text for what it says.

    It hears the signals that whoever started pytest may ignore, as nohup does.
    """
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    options = {**pipes, "cwd": ROOT, "env": {**ENVIRONMENT, **preloaded()}, "preexec_fn": _hear_signals, **options}
    return subprocess.Popen([str(word) for word in command], **options)


def _hear_signals():
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def three_sets(folder):
    """Options that name the training, validation and test set in a folder."""
    return [f"--{name}={folder / name}" for name in ("train", "valid", "test")]


def prepare(corpus, out, *options):
    usual = ["--test", corpus / "test_long", "--merges", 100, "--ratio", 3, "--workers", 1, "--out", out]
    return run("scripts/prepare.sh", *three_sets(corpus), *usual, *options)


def fairseq(tool, data, *options, **kwargs):
    return run(f"fairseq-{tool}", data / "bin", "--user-dir", USER_DIR, *options, **kwargs)


def hypotheses(output):
    rows = [line.split("\t") for line in output.splitlines() if line.startswith("H-")]
    return {row[0]: row[2] for row in rows}


def parameters(path):
    return torch.load(path, weights_only=True)["model"]


def one_line(failed, *parts):
    lines = [line for line in failed.stderr.splitlines() if not line.startswith("[")]  # without the steps' names
    assert len(lines) == 1 and "error: " in lines[0], failed.stderr
    for part in parts:
        assert part in lines[0]


def failure(capsys, *arguments):
    """What ``fairseq-rope`` says in one line when it fails with these arguments; it prints nothing else."""
    capsys.readouterr()
    assert main([str(argument) for argument in arguments]) == 1
    printed, message = capsys.readouterr()
    assert message.startswith("fairseq-rope: error: ") and message.count("\n") == 1 and printed == ""
    return message
