"""Runs fairseq-generate or fairseq-validate, whose output becomes a file, whole or not at all, and reads it."""

import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Dict, List, Sequence

from .. import progress
from ..command import LONGEST, Failure
from ..files import read_lines, remove_leftovers, replacing
from ..processes import end, last_error_in
from ..settings import flags_in

SAFE = {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"}
"""Environment in which PyTorch runs no code from a checkpoint; before 2.6, fairseq's own loading would."""

GRACE = 10.0  # seconds for a process to end

AGAIN = "run scripts/score.sh again"
LINE = re.compile(r"([HT])-([0-9]+)(?:\t(.*))?")
OWN_LINE = re.compile(r"Generate .* with beam=.*: BLEU4 = ([0-9.]+), .*")

POSITIONS = 1024
"""``--max-target-positions`` where it is not given."""


def generate(command: Sequence[str], checkpoint: Path, out: Path, sentences: int, label: str = "translate") -> Path:
    """Translates a test set, or evaluates a model on it; returns the file with the output.

    Args:
        command: fairseq-generate with its flags.
        checkpoint: the checkpoint that it uses, for the message if it fails.
        out: ``scores/test.json`` for output in ``scores/test.gen.txt`` and a log in ``scores/test.log``.
        sentences: how many sentences there are to translate.
    """
    output, log = out.with_suffix(".gen.txt"), out.with_suffix(".log")
    out.parent.mkdir(exist_ok=True)
    remove_leftovers(out.parent, f"{out.stem}.")
    log.unlink(missing_ok=True)  # a process that it left behind may still write to it
    with log.open("wb") as errors, replacing(output) as file:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": errors}
        with subprocess.Popen(_by_this_python(command), env={**os.environ, **SAFE}, **streams) as process:  # type: ignore[call-overload]
            try:
                for line in progress.generate(process.stdout, sentences, f"{label} {out.stem}"):
                    file.write(line)
                process.wait()
            finally:
                end(process, grace=GRACE)
        if process.returncode:
            raise _failure(Path(command[0]).name, process.returncode, checkpoint, log)
    return output


def _by_this_python(command: Sequence[str]) -> List[str]:
    """A command whose program this Python runs, if it is a script: the Python that it names may have been moved."""
    program = shutil.which(command[0])
    start = Path(program).read_bytes()[:1000] if program else b""
    if program and start.startswith(b"#!") and b"python" in b"".join(start.split(b"\n")[:2]):  # pip may put it second
        return [sys.executable, program, *command[1:]]
    return list(command)


def _failure(name: str, status: int, checkpoint: Path, log: Path) -> Failure:
    from fairseq_rope.checkpoints.files import CheckpointError, load_checkpoint  # fairseq's import takes seconds

    try:
        load_checkpoint(checkpoint)
    except CheckpointError as error:
        return Failure(str(error))
    reason = last_error_in(log)
    if "--skip-invalid-size-inputs-valid-test" in reason:
        return Failure(
            f"{log.stem}: a line or its reference is longer than the model takes, train it with a larger "
            "--max-source-positions and --max-target-positions, or leave that set out"
        )
    if status < 0:
        reason = f"ended by signal {signal.Signals(-status).name}"
    return Failure(f"{name} failed: {reason} (log: {log})")


@dataclass(frozen=True)
class Generated:
    """The output of fairseq-generate in the order of the test set: tokens, as ``--post-process`` leaves them."""

    hypotheses: List[str]
    """An empty hypothesis is an empty line."""
    targets: List[str]
    """The reference as it was binarised; an unknown word is ``<<unk>>``."""
    bleu: float
    """fairseq's own figure, two decimals."""


def read_generated(path: Path, sentences: int) -> Generated:
    """Reads the output for a test set with this number of sentences."""
    found: Dict[str, Dict[int, str]] = {"H": {}, "T": {}}
    figures = []
    for line in read_lines(path):
        if match := LINE.fullmatch(line):
            side, sentence, text = found[match[1]], int(match[2]), match[3] or ""
            if sentence in side:
                raise Failure(f"{path} has sentence {sentence} twice ({match[1]}-{sentence}): {AGAIN}")
            side[sentence] = text if match[1] == "T" else text.partition("\t")[2]  # behind the score
        elif own_line := OWN_LINE.fullmatch(line):
            figures.append(float(own_line[1]))
    for what, side in (("hypotheses", found["H"]), ("reference lines", found["T"])):
        if side.keys() != set(range(sentences)):
            raise Failure(f"{path} has other {what} than those of {sentences} sentences ({len(side)}): {AGAIN}")
    if len(figures) != 1:
        raise Failure(f"{path} is incomplete: fairseq's BLEU stands there {len(figures)} times: {AGAIN}")
    hypotheses, targets = ([side[sentence] for sentence in range(sentences)] for side in found.values())
    return Generated(hypotheses, targets, figures[0])


def count_cut(path: Path, flags: Sequence[str], sources: Sequence[str]) -> int:
    """How many hypotheses have as many tokens as the search makes at most, and may be cut.

    A hypothesis may be a little longer if its source stood in a batch with longer ones.

    Args:
        path: the output of fairseq-generate.
        flags: those of the training (``--max-target-positions``) and of fairseq-generate.
        sources: the tokens of each source, which ``--max-len-a`` multiplies; if there are none, nothing is counted
            with that flag.
    """
    given = {name: " ".join(words) for name, words in flags_in(flags).items()}
    factor, constant = float(given.get("--max-len-a", 0)), int(given.get("--max-len-b", LONGEST))
    if factor and not sources:
        return 0
    positions = int(given.get("--max-target-positions", POSITIONS))  # </s> needs one of them
    cut = 0
    for line in read_lines(path):
        if line.startswith("P-"):
            name, *scores = line.split()  # of each token, and of </s>
            length = len(sources[int(name[2:])].split()) + 1 if factor else 0
            cut += len(scores) > min(int(factor * length + constant), positions - 1)
    return cut
