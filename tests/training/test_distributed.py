"""Several processes: they train one model, or are refused."""

import copy
import os
import subprocess
import sys

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.distributed import utils as distributed_utils

import fairseq_rope
from fairseq_rope.training.distributed import install, join_processes

from ..commands import ENVIRONMENT, ROOT, SMALL, USER_DIR, one_line, parameters, run
from ..processes import preloaded

TORCHRUN = {"WORLD_SIZE": "3", "RANK": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}


def configuration(*flags, parser=options.get_training_parser, adds=("--arch", "roformer_tiny", "--optimizer", "adam")):
    """fairseq's own, as its commands make it of their flags."""
    words = ["data", "--task", "translation", "--cpu", "--distributed-world-size", "1", *adds, *flags]
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser(), words))


def assert_two_processes_equal_one(out, *train, stops=(6,)):
    """fairseq deals its batches out in turn, so that an update of two processes has those of --update-freq 2.

    Args:
        stops: the updates at which the two processes end, and from which they go on.
    """
    train = ["fairseq-train", *train, "--user-dir", USER_DIR, "--dropout", "0", "--optimizer", "adam", "--lr", "0.005"]
    train += ["--adam-eps", "1e-4"]  # gradients that are nothing but rounding must not become steps
    train += ["--max-update", "6", "--seed", "3", "--no-epoch-checkpoints"]
    run(*train, "--update-freq", 2, "--save-dir", out / "one")
    launch = ["python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "--no-python", *train]
    for stop in stops:
        log = run(*launch, "--save-dir", out / "two", "--max-update", stop)
        assert "training on 2 devices" in log.stdout + log.stderr
    one, two = (parameters(out / name / "checkpoint_last.pt") for name in ("one", "two"))
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-6
    start = ["--update-freq", 2, "--max-update", 1, "--lr", 1e-9, "--save-dir", out / "start"]
    run(*train, *start)
    before = parameters(out / "start/checkpoint_last.pt")
    assert max(float((one[name] - before[name]).abs().max()) for name in one) > 1e-2  # they have moved


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["roformer_tiny", "fairseq_transformer_tiny", "transformer_iwslt_de_en"])
def test_two_processes_train_what_one_does_at_twice_the_batch(data, tmp_path, arch):
    options = ["--arch", arch, *SMALL, "--share-all-embeddings", "--criterion", "label_smoothed_cross_entropy"]
    stops = (3, 6) if arch == "roformer_tiny" else (6,)
    assert_two_processes_equal_one(tmp_path, data / "bin", *options, "--max-tokens", "300", stops=stops)


@pytest.mark.slow
def test_two_processes_train_a_masked_model_as_one_does(corpus, tmp_path):
    sides = ["--trainpref", corpus / "train.en", "--validpref", corpus / "valid.en"]
    run("fairseq-preprocess", "--only-source", *sides, "--destdir", tmp_path / "bin")
    options = ["--task", "masked_lm", "--arch", "roformer_mlm_tiny", "--criterion", "fused_masked_lm"]
    options += ["--attention-dropout", "0", "--tokens-per-sample", "32", "--max-tokens", "320"]
    assert_two_processes_equal_one(tmp_path, tmp_path / "bin", *options)


@pytest.mark.slow
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
    wrong = {"NODES": ("2", "MASTER_ADDR is needed with NODES=2"), "RUNS_AT_A_TIME": ("0", "at least 1, not '0'")}
    for name, (value, message) in wrong.items():
        odd = {**ENVIRONMENT, **preloaded(), name: value}
        failed = subprocess.run(
            [ROOT / "scripts/train.sh", *map(str, options)], env=odd, capture_output=True, text=True
        )
        one_line(failed, message)


@pytest.mark.parametrize("arch", ["roformer_tiny", "fairseq_transformer_tiny", "transformer_iwslt_de_en"])
def test_torchrun_on_cpus_becomes_a_group_over_gloo_for_every_architecture(arch):
    cfg = configuration(adds=("--arch", arch, "--optimizer", "adam"))
    join_processes(cfg, TORCHRUN)
    training = cfg.distributed_training
    assert (training.distributed_world_size, training.distributed_rank) == (3, 2)
    assert training.distributed_backend == "gloo"
    assert training.distributed_init_method == "env://" and training.distributed_no_spawn
    assert training.ddp_backend == "legacy_ddp"


def test_copies_of_the_options_in_other_sections_follow():
    """fairseq has resolved its references between sections by then: adaptive_loss refuses pytorch_ddp, say."""
    cfg = configuration("--criterion", "adaptive_loss")
    assert cfg.criterion.ddp_backend == "pytorch_ddp"
    join_processes(cfg, TORCHRUN)
    assert cfg.criterion.ddp_backend == cfg.model.ddp_backend == "legacy_ddp"
    assert cfg.bmuf.distributed_world_size == 3 and "ddp_backend" not in cfg.optimizer


def test_the_old_name_of_pytorchs_backend_is_known():
    cfg = configuration("--ddp-backend", "c10d")
    join_processes(cfg, TORCHRUN)
    assert cfg.distributed_training.ddp_backend == "legacy_ddp"


def test_a_chosen_ddp_backend_is_left_alone():
    cfg = configuration("--ddp-backend", "no_c10d")
    join_processes(cfg, TORCHRUN)
    assert cfg.distributed_training.ddp_backend == "no_c10d"


def test_on_gpus_fairseq_itself_sets_up_the_group(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    cfg = configuration()
    cfg.common.cpu = False
    join_processes(cfg, TORCHRUN)
    training = cfg.distributed_training
    assert training.distributed_world_size == 3
    assert training.distributed_init_method is None and training.ddp_backend == "pytorch_ddp"


@pytest.mark.parametrize("environ", [{}, {"WORLD_SIZE": "1", "RANK": "0"}])
def test_one_process_is_left_alone(environ):
    cfg = configuration()
    before = copy.deepcopy(cfg)
    join_processes(cfg, environ)
    assert cfg == before


def test_an_own_init_method_is_left_alone():
    cfg = configuration("--distributed-init-method", "tcp://localhost:1")
    before = copy.deepcopy(cfg)
    join_processes(cfg, TORCHRUN)
    assert cfg == before


@pytest.mark.parametrize("parser", [options.get_validation_parser, options.get_interactive_generation_parser])
def test_what_does_not_train_is_left_alone(parser):
    cfg = configuration(parser=parser, adds=["--path", "x"])
    before = copy.deepcopy(cfg)
    join_processes(cfg, TORCHRUN)
    join_processes(cfg, {"OMPI_COMM_WORLD_SIZE": "2"})
    assert cfg == before


@pytest.mark.parametrize(
    "environ,message",
    [
        ({"WORLD_SIZE": "2"}, "WORLD_SIZE is 2 but RANK is not set: start the processes with torchrun"),
        ({"SLURM_STEP_NUM_TASKS": "4"}, "srun started 4 processes"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "mpirun started 2 processes"),
    ],
)
@pytest.mark.parametrize("arch", ["roformer_tiny", "transformer_iwslt_de_en"])
def test_copies_that_would_each_train_alone_are_refused(arch, environ, message):
    cfg = configuration(adds=("--arch", arch, "--optimizer", "adam"))
    with pytest.raises(ValueError, match=message):
        join_processes(cfg, environ)


def test_presets_do_not_join_processes(monkeypatch):
    """They run for every build of a model, by whatever command."""
    monkeypatch.setattr(os, "environ", {**os.environ, **TORCHRUN})
    assert configuration().distributed_training.distributed_init_method is None


def test_training_joins_when_it_begins(monkeypatch):
    """The environment is read by fairseq's ``call_main``, not before."""
    cfg, begun = configuration(), []
    monkeypatch.setattr(distributed_utils, "distributed_main", lambda i, main, cfg, kwargs: begun.append(cfg))
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    distributed_utils.call_main(cfg, None)
    assert begun == [cfg] and cfg.distributed_training.distributed_world_size == 3


def test_installing_twice_changes_nothing():
    installed = distributed_utils.call_main
    install()
    assert distributed_utils.call_main is installed


def test_importing_reads_neither_the_command_line_nor_the_environment():
    """Both are odd here, and whatever reads an entry of them that it needs is heard."""
    program = """
import collections, os, sys
import fairseq.models, fairseq.tasks, fairseq.criterions, fairseq.optim, fairseq.sequence_generator
reads = []
class Watched(collections.UserList):
    def __getitem__(self, i): reads.append(i); return super().__getitem__(i)
    def __iter__(self): reads.append("all"); return super().__iter__()
sys.argv = Watched(["fairseq-train", "--arch", "nobodys", "--distributed-init-method"])
import fairseq_rope
print(reads, fairseq_rope.__version__)
"""
    odd = {"WORLD_SIZE": "many", "RANK": "", "SLURM_STEP_NUM_TASKS": "4", "OMPI_COMM_WORLD_SIZE": "x"}
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env={**ENVIRONMENT, **odd}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"[] {fairseq_rope.__version__}"


@pytest.mark.slow
def test_the_refusal_reaches_the_user_in_one_line(data, tmp_path):
    environ = {**ENVIRONMENT, **preloaded(), "OMPI_COMM_WORLD_SIZE": "2"}
    command = ["scripts/train.sh", "--data", data, "--arch", "roformer_tiny", "--out", tmp_path / "run"]
    failed = subprocess.run([str(c) for c in command], cwd=ROOT, env=environ, capture_output=True, text=True)
    assert failed.returncode == 1
    one_line(failed, "mpirun started 2 processes", "torchrun")
    assert not list((tmp_path / "run").glob("checkpoints/*")) and "MASTER_ADDR" not in os.environ
