"""Several processes: they train one model, or are refused."""

import copy
import functools
import os

import pytest
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer

from fairseq_rope.fairseq_patches.distributed import join_processes, joins_processes
from fairseq_rope.fairseq_patches.trainer import begins
from pipeline.files import read_json

from ..commands import SMALL, USER_DIR, parameters, run

TORCHRUN = {"WORLD_SIZE": "3", "RANK": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
OTHER_LAUNCHERS = [{"WORLD_SIZE": "2"}, {"SLURM_STEP_NUM_TASKS": "4"}, {"OMPI_COMM_WORLD_SIZE": "2"}]


def configuration(*flags, parser=options.get_training_parser, arch="roformer_tiny"):
    """fairseq's own, as its commands make it of their flags."""
    return copy.deepcopy(_parsed(parser, "--arch", arch, "--optimizer", "adam", *flags))


@functools.cache
def _parsed(parser, *flags):
    flags = flags if parser is options.get_training_parser else ["--path", "x"]
    words = ["data", "--task", "translation", "--cpu", "--distributed-world-size", "1", *flags]
    return convert_namespace_to_omegaconf(options.parse_args_and_arch(parser(), words))


def joined(*flags, environ=TORCHRUN, **kwargs):
    """The configuration as it was, and as it is for one of several processes."""
    cfg = configuration(*flags, **kwargs)
    before = copy.deepcopy(cfg)
    join_processes(cfg, environ)
    return before, cfg


def assert_two_processes_equal_one(out, *train, stops=(6,)):
    """fairseq deals its batches out in turn, so that an update of two processes has those of --update-freq 2.

    Args:
        stops: the updates at which the two processes end, and from which they go on.
    """
    train = ["fairseq-train", *train, "--user-dir", USER_DIR, "--dropout", "0", "--optimizer", "adam", "--lr", "0.005"]
    train += ["--adam-eps", "1e-4"]  # gradients that are nothing but rounding must not become steps
    train += ["--max-update", "6", "--seed", "3", "--no-epoch-checkpoints"]
    run(*train, "--update-freq", 2, "--save-dir", out / "one", "--save-interval-updates", 1)
    launch = ["python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2, "--no-python", *train]
    for stop in stops:
        log = run(*launch, "--save-dir", out / "two", "--max-update", stop)
        assert "training on 2 devices" in log.stdout + log.stderr
    names = ("one/checkpoint_1_1.pt", "one/checkpoint_last.pt", "two/checkpoint_last.pt")
    first, one, two = (parameters(out / name) for name in names)
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-6
    assert max(float((one[name] - first[name]).abs().max()) for name in one) > 1e-2  # they have moved


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["roformer_tiny", pytest.param("fairseq_transformer_tiny", marks=pytest.mark.long)])
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
    assert read_json(out / "run.json")["batch"].endswith("--update-freq 2")
    assert "devices 1 x update frequency 2 x batches" in second.stderr and "other settings" not in second.stderr
    log = (out / "train.log").read_text()
    assert "training on 2 devices" in log and "training on 1 devices" in log and "@ 4 updates" in log
    assert (out / "checkpoints/checkpoint_1_6.pt").exists()


@pytest.mark.parametrize("arch", ["roformer_tiny", "fairseq_transformer_tiny", "transformer_iwslt_de_en"])
def test_torchrun_on_cpus_becomes_a_group_over_gloo_for_every_architecture(arch):
    training = joined(arch=arch)[1].distributed_training
    assert (training.distributed_world_size, training.distributed_rank) == (3, 2)
    assert training.distributed_backend == "gloo"
    assert training.distributed_init_method == "env://" and training.distributed_no_spawn
    assert training.ddp_backend == "legacy_ddp"


def test_one_process_an_own_init_method_and_what_does_not_train_are_left_alone():
    alone = {"WORLD_SIZE": "1", "RANK": "0"}
    alike = [joined(environ={}), joined(environ=alone), joined(environ={**alone, "SLURM_STEP_NUM_TASKS": "4"})]
    alike.append(joined("--distributed-init-method", "tcp://localhost:1"))
    for parser in (options.get_validation_parser, options.get_interactive_generation_parser):
        for environ in (TORCHRUN, *OTHER_LAUNCHERS):
            alike.append(joined(parser=parser, environ=environ))
    assert all(str(before) == str(cfg) for before, cfg in alike)  # omegaconf 2.0 cannot compare them


def test_one_process_of_torchrun_is_none_of_several(monkeypatch):
    """The official fairseq would train it over NCCL, also on a CPU."""
    for name, value in {**TORCHRUN, "WORLD_SIZE": "1", "RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    cfg = configuration()
    cfg.distributed_training.distributed_world_size = 8  # as on a machine with so many GPUs
    joins_processes(lambda cfg, main: None)(cfg, None)
    assert "MASTER_ADDR" not in os.environ and cfg.distributed_training.distributed_world_size == 1


def test_a_variable_of_that_name_alone_is_no_torchrun(monkeypatch):
    """Scripts for SLURM set some of its variables."""
    for name in ("RANK", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("MASTER_ADDR", "node1")
    cfg = configuration()
    cfg.distributed_training.distributed_world_size = 8
    joins_processes(lambda cfg, main: None)(cfg, None)
    assert "MASTER_ADDR" in os.environ and cfg.distributed_training.distributed_world_size == 8


def test_processes_that_have_not_joined_when_they_train_are_refused(monkeypatch):
    """Of ``fairseq-hydra-train``, which reads the user directory too late for that."""
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=r"each of the 3 processes .* fairseq-train"):
        Trainer(configuration(), None, None, None)
    monkeypatch.delenv("WORLD_SIZE")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="mpirun started 2 processes"):
        Trainer(configuration(), None, None, None)


def test_several_processes_read_the_checkpoint_themselves_and_a_training_without_flags_has_their_checks():
    found = []
    make = begins(lambda self, cfg: found.append(cfg.checkpoint.load_checkpoint_on_all_dp_ranks))
    for count in (1, 2):
        cfg = configuration()
        cfg.distributed_training.distributed_world_size = count
        make(None, cfg)
    assert found == [False, True]
    cfg.common.amp = cfg.common.bf16 = True
    with pytest.raises(ValueError, match="--amp and --bf16"):
        make(None, cfg)


ONE_HAS_IT = """
import sys
from torch import distributed
from fairseq_rope.fairseq_patches.trainer import goes_on
distributed.init_process_group("gloo")
try:
    goes_on(lambda trainer, filename: None)(None, sys.argv[1] + str(distributed.get_rank()))
finally:
    distributed.destroy_process_group()
"""


@pytest.mark.slow
def test_a_checkpoint_that_some_processes_lack_is_refused(tmp_path):
    (tmp_path / "program.py").write_text(ONE_HAS_IT)
    (tmp_path / "checkpoint0").touch()
    launch = ["python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2]
    for folder, fails in ((tmp_path, True), (tmp_path / "nowhere", False)):
        done = run(*launch, tmp_path / "program.py", folder / "checkpoint", fails=fails)
        assert ("some processes see it, others do not" in done.stderr) == fails


def test_copies_that_would_each_train_alone_are_refused():
    for environ in OTHER_LAUNCHERS:
        with pytest.raises(ValueError, match="torchrun"):
            joined(environ=environ)
