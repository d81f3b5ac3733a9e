"""train.sh when it is killed or ended by its flags, and when it begins with another run."""

import re
import subprocess
import time
from pathlib import Path

import pytest

from pipeline.command import Failure
from pipeline.lock import locked
from pipeline.paths import RUN
from pipeline.training.log import read_log

from ..commands import SMALL, TRAIN, one_line, parameters, run, start
from ..processes import preloaded

pytestmark = pytest.mark.slow


def words(data, out, *options, behind=()):
    """train.sh with a small model; ``behind`` are flags of fairseq's."""
    run = ["scripts/train.sh", "--data", data, "--arch", "roformer_tiny", "--out", out, *options]
    return [str(word) for word in [*run, "--", *SMALL, "--max-tokens", 600, *behind]]


ONE_UPDATE = ["--train-subset", "test1", "--required-batch-size-multiple", 1, "--max-tokens", 2000]
"""Flags with which an epoch has one update."""


def test_checkpoints_at_the_end_of_an_epoch_are_kept_and_averaged(data, tmp_path):
    """fairseq alone would keep none of them. torchrun leaves no folder among the temporary files."""
    out, temporary = tmp_path / "run", Path(preloaded()["TMPDIR"])
    before = set(temporary.glob("torchelastic_*"))
    run(*words(data, out, "--save-every", 1, "--max-update", 12, behind=ONE_UPDATE))
    kept = sorted(path.name for path in (out / "checkpoints").glob("checkpoint_*_*.pt"))
    assert kept == sorted(f"checkpoint_{i}_{i}.pt" for i in range(3, 13))
    run("scripts/average.sh", "--run", out, "--data", data)
    assert set(temporary.glob("torchelastic_*")) == before


def test_patience_counts_each_checkpoint_and_goes_on_after_an_interruption(data, tmp_path):
    """No loss is below the first. At the end of an epoch fairseq alone would not validate; the validation at the last
    update of the shorter training does not count in the longer one."""
    still = [*ONE_UPDATE, "--patience", 2, "--lr", 1e-15, "--warmup-init-lr", 1e-15]
    run(*words(data, tmp_path, "--save-every", 2, "--max-update", 3, behind=still))
    for _ in range(2):
        ended = run(*words(data, tmp_path, "--save-every", 2, "--max-update", 50, behind=still)).stderr
        assert "ended after 6 of 50 updates, as its flags say" in ended
        assert [point.updates for point in read_log(tmp_path / "train.log").valid] == [2, 3, 4, 6]
        (tmp_path / ".stamps/train.json").unlink()  # as after a kill between the last update and the stamp


def start_training(data, out):
    """train.sh after its first checkpoints."""
    process = start(*words(data, out, "--save-every", 3, "--max-update", 30, behind=["--max-tokens", 300]))
    while not (out / "checkpoints/checkpoint_1_6.pt").exists():
        assert process.poll() is None
        time.sleep(0.005)
    return process


def test_a_crashed_training_is_started_again_and_goes_on(data, tmp_path):
    """Its worker keeps other calls away from the checkpoints, also where it outlives the script."""
    out = tmp_path / "run"
    process = start_training(data, out)
    with pytest.raises(Failure, match=f"another command works in {out}/checkpoints"):
        locked(out / "checkpoints", wait=0).__enter__()
    subprocess.run(["pkill", "-KILL", "-f", f" -u {RUN} pipeline.training.worker .*{out}/checkpoints"], check=True)
    error = process.communicate()[1]
    assert process.returncode == 0, error
    assert re.search(r"ended before its time: going on from update \d+$", error, re.MULTILINE)
    assert (out / "train.log").read_text().count("Loaded checkpoint") == 1
    assert read_log(out / "train.log").updates == 30
    assert len(list((out / "checkpoints").glob("checkpoint_*_30.pt"))) == 1


GREEDY = """
from fairseq.criterions import register_criterion
from fairseq.criterions.cross_entropy import CrossEntropyCriterion
from torch import OutOfMemoryError

@register_criterion("greedy")
class Greedy(CrossEntropyCriterion):
    def forward(self, model, sample, reduce=True):
        if model.training and sample["ntokens"] > 200:
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return super().forward(model, sample, reduce)
"""
"""A user's loss that has too little memory for the largest batches."""


def test_a_batch_for_which_the_memory_is_too_small_ends_the_training(data, tmp_path):
    """fairseq alone would leave such batches out, and end as if nothing had happened."""
    (tmp_path / "greedy").mkdir()
    (tmp_path / "greedy/__init__.py").write_text(GREEDY)
    worker = ["python", "-u", RUN, "pipeline.training.worker", data / "bin", "--save-dir", tmp_path / "checkpoints"]
    flags = ["--user-dir", tmp_path / "greedy", "--criterion", "greedy", "--arch", "transformer_tiny"]
    done = run(*worker, *TRAIN, *flags, "--save-interval-updates", 9, "--max-epoch", 1, fails=True)
    assert "OutOfMemoryError: CUDA out of memory" in done.stderr.splitlines()[-1]


def test_a_training_begins_with_another_run_whose_positions_change(data, trained, tmp_path):
    new = tmp_path / "new"
    begin = words(data, new, "--from", trained, "--save-every", 1, "--max-update", 5, behind=["--lr", 1e-15])
    begin[begin.index("roformer_tiny")] = "transformer_sinusoidal_tiny"
    said = run(*begin).stderr
    assert "begins with" in said
    before, after = (parameters(path) for path in (trained / "checkpoint.pt", new / "checkpoints/checkpoint_last.pt"))
    assert before.keys() == after.keys()
    assert all((before[name] - after[name]).abs().max() < 1e-6 for name in before)
    assert "done before" in run(*begin).stderr and not (new / "from.pt").exists()
    begin[begin.index(str(new))] = str(tmp_path / "x")
    failed = run(*begin, "--encoder-layers", 3, fails=True)
    one_line(failed, "more than positions differs: --encoder-layers is")
    assert not (tmp_path / "x").exists()
