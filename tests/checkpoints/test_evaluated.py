"""The options in a checkpoint run no code, neither in this project's tools nor in fairseq's with the plugin."""

import argparse
import inspect
import itertools
import re
import shutil

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from omegaconf import OmegaConf

from fairseq_rope.checkpoints.evaluated import check_evaluated
from fairseq_rope.checkpoints.files import load_checkpoint

from ..commands import fairseq as tool
from ..commands import one_line, run


def test_what_fairseq_means_passes():
    for name, value in [
        ("adaptive_softmax_cutoff", "1000,-2000"),
        ("adaptive_softmax_cutoff", [1000, 2000]),
        ("adam_betas", "(0.9, 1 - 0.02 / 2)"),
        ("encoder_layers", "[(512, 3)] * 4 + [(1024, 3)]"),
        ("encoder_xformers_att_config", "{'name': 'linear'}"),
        ("save_dir", "print(1)"),  # is not evaluated
        ("save_dir", "${common.tensorboard_logdir}"),
    ]:
        check_evaluated(argparse.Namespace(**{name: value}), {"model": {name: value}}, None)


PROGRAM = "(open('marker', 'w').close(), [100, 200])[1]"
PLACES = [
    lambda **option: argparse.Namespace(**option),
    lambda **option: {"model": argparse.Namespace(**option)},
    lambda **option: {"task": [({"deep": option},)]},
]
if "flags" in inspect.signature(OmegaConf.create).parameters:  # from omegaconf 2.1 on, which takes all of the programs
    PLACES += [
        lambda **option: OmegaConf.create({"model": argparse.Namespace(**option)}, flags={"allow_objects": True}),
        lambda **option: OmegaConf.create({"criterion": option}),
    ]


def test_a_program_is_refused_wherever_it_is():
    programs = (PROGRAM, PROGRAM.encode(), "x", "[*x]", "f'{x}'", "().__class__", "9 " * 10**6)
    options = ("adam_betas", "encoder_layers", "xformers_att_config")  # the last one is of one side, without its prefix
    for value, nested, name in itertools.product(programs, PLACES, options):
        with pytest.raises(ValueError, match=f"refused: its option {name}"):
            check_evaluated(nested(**{name: value}))


def test_what_omegaconf_would_compute_is_refused_and_a_circle_ends():
    circle = {"model": {}}
    circle["model"]["up"] = circle
    check_evaluated(circle)
    circle["model"]["name"] = "${common.name}${.up}"
    check_evaluated(circle)
    program = "'{adam_betas: \"print()\"}'"
    for computed in ("oc.decode", "${common.x}", "oc.${common.x}", "${common.${y}}"):
        circle["model"]["name"] = f"${{{computed}:{program}}}"
        with pytest.raises(ValueError, match="its option name"):
            check_evaluated(circle)


@pytest.mark.slow
def test_a_program_in_a_checkpoint_is_never_run_and_its_user_dir_never_imported(trained, data, tmp_path):
    folder, marker = shutil.copytree(trained, tmp_path / "model"), tmp_path / "marker"
    checkpoint = folder / "checkpoint.pt"
    (tmp_path / "user/plugin").mkdir(parents=True)
    (tmp_path / "user/plugin/__init__.py").write_text(f"open({str(marker)!r}, 'w')")
    state = torch.load(checkpoint, weights_only=True)
    state["cfg"]["common"]["user_dir"] = str(tmp_path / "user/plugin")
    torch.save(state, checkpoint)
    assert run("scripts/translate.sh", folder, input="a\n").stdout and not marker.exists()

    state["cfg"]["model"].adaptive_softmax_cutoff = PROGRAM.replace("marker", str(marker))
    torch.save(state, checkpoint)
    for load in (load_checkpoint, lambda path: checkpoint_utils.load_model_ensemble_and_task([str(path)])):
        with pytest.raises(ValueError, match=r"checkpoint\.pt: refused: its option adaptive_softmax_cutoff"):
            load(checkpoint)
    one_line(run("scripts/translate.sh", folder, input="a\n", fails=True), "adaptive_softmax_cutoff")
    train = ["--arch", "roformer_tiny", "--optimizer", "adam", "--restore-file", checkpoint]
    for name, options in {"generate": ["--path", checkpoint], "train": train}.items():
        failed = tool(name, data, *options, "--task", "translation", "--max-tokens", 600, fails=True, cwd=tmp_path)
        assert "refused: its option adaptive_softmax_cutoff" in failed.stderr, name
    assert not marker.exists()


def test_numbers_of_numpy_1_and_2_are_read_with_either(tmp_path):
    """They name the modules that make them again, which NumPy 2 has under another name."""
    best = {"best": np.float64(31.5), "all": np.arange(3.0)}
    torch.save(best, tmp_path / "own.pt", _use_new_zipfile_serialization=False)
    for module in (b"numpy.core.multiarray", b"numpy._core.multiarray"):
        content = re.sub(rb"numpy\._?core\.multiarray", module, (tmp_path / "own.pt").read_bytes())
        (tmp_path / "other.pt").write_bytes(content)
        found = torch.load(tmp_path / "other.pt", weights_only=True)
        assert found["best"] == 31.5 and found["all"].tolist() == [0, 1, 2]
    for each in torch.serialization.get_safe_globals():
        assert each.__module__ and each.__name__ and each.__qualname__  # by which versions of PyTorch know it
