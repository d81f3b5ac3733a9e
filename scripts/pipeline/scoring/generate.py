"""Runs fairseq-generate or fairseq-validate: its output becomes a file, whole or not at all; a failure is one line."""

import os
import signal
import subprocess
from pathlib import Path
from typing import Sequence

from .. import progress
from ..command import Failure
from ..files import remove_leftovers, replacing
from ..processes import end, last_error_in

SAFE = {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1"}
"""Environment in which PyTorch runs no code from a checkpoint; before 2.6, fairseq's own loading would."""

GRACE = 10.0  # seconds for a process to end


def generate(command: Sequence[str], checkpoint: Path, out: Path, sentences: int, label: str = "translate") -> Path:
    """Translates a test set, or evaluates a model on it.

    Args:
        command: fairseq-generate with its flags.
        checkpoint: the checkpoint that it uses, for the message if it fails.
        out: ``scores/test.json`` for output in ``scores/test.gen.txt`` and a log in ``scores/test.log``.
        sentences: how many sentences there are to translate.
        label: the label of the progress bar.

    Returns:
        The file with the output.

    Raises:
        Failure: fairseq-generate fails; the message names the fault of the checkpoint, or the last error of the log.
    """
    output, log = out.with_suffix(".gen.txt"), out.with_suffix(".log")
    out.parent.mkdir(exist_ok=True)
    remove_leftovers(out.parent, f"{out.stem}.")
    log.unlink(missing_ok=True)  # a process that it left behind may still write to it
    with log.open("wb") as errors, replacing(output) as file:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": errors}
        with subprocess.Popen(command, env={**os.environ, **SAFE}, **streams) as process:  # type: ignore[call-overload]
            try:
                for line in progress.generate(process.stdout, sentences, f"{label} {out.stem}"):
                    file.write(line)
                process.wait()
            finally:
                end(process, grace=GRACE)
        if process.returncode:
            raise _failure(Path(command[0]).name, process.returncode, checkpoint, log)
    return output


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
