"""train.sh when it is killed, interrupted or ended by its flags, and when it goes on from a checkpoint."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipeline.training.log import read_log

from ..commands import ENVIRONMENT, ROOT, SMALL, TRAIN, one_line, parameters, run
from ..processes import preloaded

pytestmark = pytest.mark.slow


def words(data, out, *options, behind=()):
    """train.sh with a small model; ``behind`` are flags of fairseq's."""
    run = ["scripts/train.sh", "--data", data, "--arch", "roformer_tiny", "--out", out, *options]
    return [str(word) for word in [*run, "--", *SMALL, "--max-tokens", 600, *behind]]


def test_where_the_newest_checkpoints_are_damaged_training_goes_on_from_the_one_before(data, tmp_path):
    out = tmp_path / "run"
    run(*words(data, out, "--save-every", 2, "--max-update", 4))
    for name in ("checkpoint_last.pt", "checkpoint_1_4.pt"):
        path = out / "checkpoints" / name
        path.write_bytes(path.read_bytes()[:1000])
    said = run(*words(data, out, "--save-every", 2, "--max-update", 6)).stderr
    assert "checkpoint_1_4.pt is damaged: it is renamed to checkpoint_1_4.pt.damaged\n" in said
    assert "checkpoint_last.pt is damaged: training goes on from checkpoint_1_2.pt\n" in said
    assert "@ 2 updates)" in (out / "train.log").read_text()
    assert (out / "checkpoints/checkpoint_1_6.pt").exists()


ONE_UPDATE = ["--train-subset", "test1", "--required-batch-size-multiple", 1, "--max-tokens", 2000]
"""Flags with which an epoch has one update."""


def test_checkpoints_at_the_end_of_an_epoch_are_kept_and_averaged(data, tmp_path):
    """fairseq alone would keep none of them."""
    out = tmp_path / "run"
    run(*words(data, out, "--save-every", 1, "--max-update", 12, behind=ONE_UPDATE))
    kept = sorted(path.name for path in (out / "checkpoints").glob("checkpoint_*_*.pt"))
    assert kept == sorted(f"checkpoint_{i}_{i}.pt" for i in range(3, 13))
    run("scripts/average.sh", "--run", out, "--data", data)


def test_patience_counts_each_checkpoint_and_goes_on_after_an_interruption(data, tmp_path):
    """At the end of an epoch fairseq alone would not validate. No loss is below the first."""
    still = [*ONE_UPDATE, "--patience", 3, "--lr", 1e-15, "--warmup-init-lr", 1e-15]
    run(*words(data, tmp_path, "--save-every", 1, "--max-update", 2, behind=still))
    for _ in range(2):
        ended = run(*words(data, tmp_path, "--save-every", 1, "--max-update", 50, behind=still)).stderr
        assert "ended after 4 of 50 updates, as its flags say" in ended
        assert [point.updates for point in read_log(tmp_path / "train.log").valid] == [1, 2, 3, 4]
        (tmp_path / ".stamps/train.json").unlink()  # as after a kill between the last update and the stamp


def test_a_longer_training_does_not_count_the_validation_at_the_last_update_of_the_shorter_one(data, tmp_path):
    """It validates after updates 2, 4 and 6; no loss is below the first."""
    still = [*ONE_UPDATE, "--patience", 2, "--lr", 1e-15, "--warmup-init-lr", 1e-15]
    run(*words(data, tmp_path, "--save-every", 2, "--max-update", 3, behind=still))
    ended = run(*words(data, tmp_path, "--save-every", 2, "--max-update", 50, behind=still)).stderr
    assert "ended after 6 of 50 updates, as its flags say" in ended


def test_torchrun_leaves_no_folder_among_the_temporary_files(data, tmp_path):
    temporary = Path(preloaded()["TMPDIR"])
    before = set(temporary.glob("torchelastic_*"))
    run(*words(data, tmp_path / "run", "--save-every", 1, "--max-update", 1))
    assert set(temporary.glob("torchelastic_*")) == before


def start_training(data, out):
    """train.sh in a process group of its own, after its first checkpoints."""
    process = subprocess.Popen(
        words(data, out, "--save-every", 3, "--max-update", 30, behind=["--max-tokens", 300]),
        cwd=ROOT,
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # whoever started pytest may ignore it
    )
    while not (out / "checkpoints/checkpoint_1_6.pt").exists():
        assert process.poll() is None
        time.sleep(0.005)
    return process


def test_a_crashed_training_is_started_again_and_goes_on(data, tmp_path):
    out = tmp_path / "run"
    process = start_training(data, out)
    worker = f" -u [^ ]*run.py pipeline.training.worker .*{out}/checkpoints"
    subprocess.run(["pkill", "-KILL", "-f", worker], check=True)
    error = process.communicate()[1]
    assert process.returncode == 0, error
    assert re.search(r"ended before its time: going on from update \d+$", error, re.MULTILINE)
    assert (out / "train.log").read_text().count("Loaded checkpoint") == 1
    assert read_log(out / "train.log").updates == 30
    assert len(list((out / "checkpoints").glob("checkpoint_*_30.pt"))) == 1


def test_an_interrupted_training_ends(data, tmp_path):
    process = start_training(data, tmp_path / "run")
    os.killpg(process.pid, signal.SIGINT)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == -signal.SIGINT and "going on" not in error
    assert not (tmp_path / "run/.stamps/train.json").exists()


def test_a_worker_that_outlives_a_killed_script_keeps_the_run(data, tmp_path):
    out = tmp_path / "run"
    process = start_training(data, out)
    worker = f" -u [^ ]*run.py pipeline.training.worker .*{out}/checkpoints"
    try:
        subprocess.run(["pkill", "-STOP", "-f", worker], check=True)  # so that it is still there
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        kept = (out / "settings").read_text()
        failed = run(*words(data, out), fails=True)
        one_line(failed, f"another command works in {out}/checkpoints: wait for it, or end it")
        assert (out / "settings").read_text() == kept and not list(tmp_path.glob("run.old*"))
    finally:
        subprocess.run(["pkill", "-KILL", "-f", worker])


def test_a_training_that_its_flags_end_earlier_says_so(data, tmp_path):
    out, once = tmp_path / "run", ["--max-epoch", 1]
    ended = run(*words(data, out, "--save-every", 5, "--max-update", 1000, behind=once)).stderr
    updates = int(re.search(r"ended after (\d+) of 1000 updates, as its flags say", ended)[1])
    assert 0 < updates < 100 and (out / f"checkpoints/checkpoint_0_{updates}.pt").exists()
    assert updates % 5  # else there would be a checkpoint anyway
    assert read_log(out / "train.log").updates == read_log(out / "train.log").valid[-1].updates == updates


GREEDY = """
import sys
sys.path.insert(0, "scripts")
from fairseq.criterions import register_criterion
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from torch import OutOfMemoryError

@register_criterion("greedy")
class Greedy(CrossEntropyCriterion):
    def forward(self, model, sample, reduce=True):
        if model.training and sample["ntokens"] > 200:
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return super().forward(model, sample, reduce)

from pipeline.training.worker import main
main()
"""
"""A worker whose loss has too little memory for its largest batches."""


def test_a_batch_for_which_the_memory_is_too_small_ends_the_training(data, tmp_path):
    """fairseq alone would leave such batches out, and end as if nothing had happened."""
    flags = "--arch transformer_tiny --criterion greedy --save-interval-updates 9 --max-epoch 1"
    words = [sys.executable, "-c", GREEDY, data / "bin", "--save-dir", tmp_path / "checkpoints", *TRAIN, *flags.split()]
    done = subprocess.run([str(word) for word in words], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 1 and "OutOfMemoryError: CUDA out of memory" in done.stderr.splitlines()[-1]


def test_a_training_begins_with_another_run_whose_positions_change(data, tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    run("scripts/train.sh", "--data", data, "--arch", "transformer_sinusoidal_tiny", "--out", old, "--max-update", 5,
        "--save-every", 1, "--", *SMALL, "--max-tokens", 600)  # fmt: skip
    run("scripts/average.sh", "--run", old, "--data", data)
    begin = words(data, new, "--from", old, "--save-every", 1, "--max-update", 5, behind=["--lr", 1e-15])
    said = run(*begin).stderr
    assert "begins with" in said
    before, after = (parameters(path) for path in (old / "checkpoint.pt", new / "checkpoints/checkpoint_last.pt"))
    assert before.keys() == after.keys()
    assert all((before[name] - after[name]).abs().max() < 1e-6 for name in before)
    assert "done before" in run(*begin).stderr and not (new / "from.pt").exists()
    another = [word if word != "roformer_tiny" else "tupe_a_lm_tiny" for word in begin]
    one_line(run(*another, fails=True), "tupe_a_lm_tiny")
    other_size = [
        *words(data, tmp_path / "x", "--from", old, "--save-every", 1, "--max-update", 5),
        "--encoder-layers",
        "3",
    ]
    one_line(run(*other_size, fails=True), "more than positions differs: --encoder-layers is")
    assert not (tmp_path / "x").exists()
    (new / "checkpoint.pt").unlink(missing_ok=True)
    one_line(run(*words(data, tmp_path / "x", "--from", new), fails=True), "run scripts/average.sh, or")
