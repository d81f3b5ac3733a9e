"""Several processes: they train one model, or are refused."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_rope.training.distributed import join_processes, refuse_others

from ..commands import ENVIRONMENT, ROOT, SMALL, USER_DIR, one_line, parameters, run

TORCHRUN = {"WORLD_SIZE": "3", "RANK": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
TOOLS = Path(sys.executable).parent


def arguments(**changes):
    given = dict(distributed_init_method=None, distributed_world_size=1, ddp_backend="pytorch_ddp", cpu=True)
    return argparse.Namespace(**{**given, **changes})


@pytest.mark.parametrize("arch", ["roformer_tiny", "fairseq_transformer_tiny"])
def test_two_processes_train_what_one_does_at_twice_the_batch(data, tmp_path, arch):
    """fairseq deals its batches out in turn, so that an update of two processes has those of --update-freq 2."""
    train = ["fairseq-train", data / "bin", "--user-dir", USER_DIR, "--arch", arch, *SMALL, "--share-all-embeddings"]
    train += ["--optimizer", "adam", "--lr", "0.005", "--criterion", "label_smoothed_cross_entropy", "--dropout", "0"]
    train += ["--adam-eps", "1e-4"]  # gradients that are nothing but rounding must not become steps
    train += ["--max-tokens", "300", "--max-update", "6", "--seed", "3", "--no-epoch-checkpoints"]
    run(*train, "--update-freq", 2, "--save-dir", tmp_path / "one")
    launch = ["torchrun", "--standalone", "--nproc-per-node", "2", TOOLS / "fairseq-train", *train[1:]]
    log = run(*launch, "--save-dir", tmp_path / "two")
    assert "training on 2 devices" in log.stdout + log.stderr
    one, two = (parameters(tmp_path / name / "checkpoint_last.pt") for name in ("one", "two"))
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-6
    start = ["--update-freq", 2, "--max-update", 1, "--lr", 1e-9, "--save-dir", tmp_path / "start"]
    run(*train, *start)
    before = parameters(tmp_path / "start/checkpoint_last.pt")
    assert max(float((one[name] - before[name]).abs().max()) for name in one) > 1e-2  # they have moved


def test_train_sh_works_in_processes_and_goes_on_with_another_number(data, tmp_path):
    out = tmp_path / "run"
    options = ["--data", data, "--arch", "roformer_tiny", "--out", out, "--save-every", 2, "--target-tokens", 700]
    options += ["--device-tokens", 600]
    first = run("scripts/train.sh", *options, "--max-update", 4, "--processes", 2, "--", *SMALL)
    assert "devices 2 x update frequency 1 x batches" in first.stderr
    second = run("scripts/train.sh", *options, "--max-update", 6, "--", *SMALL)
    assert "devices 1 x update frequency 2 x batches" in second.stderr and "other settings" not in second.stderr
    log = (out / "train.log").read_text()
    assert "training on 2 devices" in log and "training on 1 devices" in log and "@ 4 updates" in log
    assert (out / "checkpoints/checkpoint_1_6.pt").exists()
    odd = {**ENVIRONMENT, "NODES": "2"}
    failed = subprocess.run([ROOT / "scripts/train.sh", *map(str, options)], env=odd, capture_output=True, text=True)
    assert failed.returncode == 2
    one_line(failed, "MASTER_ADDR is needed with NODES=2")


def test_torchrun_on_cpus_becomes_a_group_over_gloo():
    args = arguments()
    join_processes(args, TORCHRUN)
    assert (args.distributed_world_size, args.distributed_rank, args.distributed_backend) == (3, 2, "gloo")
    assert args.distributed_init_method == "env://" and args.distributed_no_spawn
    assert args.ddp_backend == "legacy_ddp"


@pytest.mark.parametrize("environ", [{}, {"WORLD_SIZE": "1", "RANK": "0"}])
def test_one_process_is_left_alone(environ):
    args = arguments()
    join_processes(args, environ)
    assert vars(args) == vars(arguments())


def test_an_own_init_method_is_left_alone():
    given = arguments(distributed_init_method="tcp://localhost:1", distributed_world_size=3)
    join_processes(given, TORCHRUN)
    assert given.distributed_world_size == 3 and not hasattr(given, "distributed_rank")


@pytest.mark.parametrize(
    "environ,message",
    [
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is 2 but RANK is not set: start the processes with torchrun"),
        ({"SLURM_STEP_NUM_TASKS": "4"}, "srun started 4 processes"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "mpirun started 2 processes"),
    ],
)
def test_copies_that_would_each_train_alone_are_refused(environ, message):
    with pytest.raises(ValueError, match=message):
        join_processes(arguments(), environ)


def test_other_architectures_are_not_trained_in_copies(data, tmp_path):
    launch = ["torchrun", "--standalone", "--nproc-per-node", "2", TOOLS / "fairseq-train", data / "bin"]
    options = ["--user-dir", USER_DIR, "--arch=transformer_iwslt_de_en", "--save-dir", tmp_path, "--max-update", 1]
    failed = run(*launch, *options, fails=True)
    assert "2 processes would each train a transformer_iwslt_de_en of its own" in failed.stderr
    assert list(tmp_path.iterdir()) == []
    for given in ([], ["--arch", "roformer_base"], ["--arch", "x", "--distributed-init-method", "env://"]):
        refuse_others(["roformer_base"], ["fairseq-train", *given], TORCHRUN)
    refuse_others([], ["fairseq-train", "--arch", "x"], {})


def test_the_refusal_reaches_the_user_in_one_line(data, tmp_path):
    environ = {**ENVIRONMENT, "OMPI_COMM_WORLD_SIZE": "2"}
    command = ["scripts/train.sh", "--data", data, "--arch", "roformer_tiny", "--out", tmp_path / "run"]
    failed = subprocess.run([str(c) for c in command], cwd=ROOT, env=environ, capture_output=True, text=True)
    assert failed.returncode == 1
    one_line(failed, "mpirun started 2 processes", "torchrun")
    assert not list((tmp_path / "run").glob("checkpoints/*")) and "MASTER_ADDR" not in os.environ
