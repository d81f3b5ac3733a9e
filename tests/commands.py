"""What the tests of command lines share: fairseq's tools with --user-dir and the scripts, run as a user would."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import torch

import fairseq_rope  # noqa: F401  (lets safe loading read checkpoints)

from .processes import call

ROOT = Path(__file__).parent.parent
USER_DIR = ROOT / "fairseq_rope"
# the tools of the environment that runs the tests
ENVIRONMENT = {
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


def run(*command, cwd=ROOT, fails=False, input=None):
    """Runs a command as a user would; fairseq's own and the scripts without the seconds that their imports take."""
    name = str(command[0])
    if name.startswith("fairseq-"):
        done = call(f"fairseq_cli.{name[len('fairseq-') :]}:cli_main", command, cwd, ENVIRONMENT, input)
    elif name.startswith("scripts/") and _python_of(ROOT / name):
        module, template = _python_of(ROOT / name)
        environ = {**ENVIRONMENT, "SCRIPT": Path(name).name}
        done = call(f"{module}:main", [name, *template, *command[1:]], cwd, environ, input)
    else:
        words = [str(word) for word in command]
        done = subprocess.run(words, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, input=input)
    assert (done.returncode != 0) == fails, done.stdout[-2000:] + done.stderr[-4000:]
    return done


def _python_of(script):
    """The module that a script hands over to, and the words before its options; None if it does more than that."""
    text = script.read_text(encoding="utf-8").replace("\\\n", " ")
    line = re.search(r"^exec python -m (pipeline\S+) (.*)\"\$@\"$", text, re.MULTILINE)
    if line is None:
        return None
    package = (ROOT / "scripts" / line[1].replace(".", "/")).is_dir()
    return f"{line[1]}.__main__" if package else line[1], shlex.split(line[2])


def prepare(corpus, out, **kwargs):
    return run(
        *["scripts/prepare.sh", "--train", corpus / "train", "--valid", corpus / "valid", "--test", corpus / "test"],
        *["--test", corpus / "test_long", "--merges", 100, "--ratio", 3, "--workers", 1, "--out", out],
        **kwargs,
    )


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
