"""The options in a checkpoint run no code, neither in this project's tools nor in fairseq's with the plugin."""

import argparse
import ast
import functools
import shutil
from pathlib import Path

import fairseq
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.models.transformer import TransformerConfig
from omegaconf import OmegaConf

from fairseq_rope.checkpoints.evaluated import EVALUATED, check_evaluated, install
from fairseq_rope.checkpoints.files import CheckpointError, load_checkpoint

from ..commands import fairseq as tool
from ..commands import one_line, run

EVALUATORS = ("eval", "eval_str_list", "eval_str_dict", "eval_bool")
UNREACHABLE = {"line": "a line of a data set of speech units"}


def evaluated_names(path):
    """The names of what a file of fairseq's hands to ``eval``, but for what its command line does."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    of_the_command_line = [node for f in ast.walk(tree) if isinstance(f, ast.Lambda) for node in ast.walk(f)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node not in of_the_command_line and node.args:
            called = getattr(node.func, "id", getattr(node.func, "attr", None))
            is_method = isinstance(node.func, ast.Attribute) and called == "eval"  # of a module
            if called in EVALUATORS and not is_method:
                argument = node.args[0]
                yield getattr(argument, "attr", None) or getattr(argument, "id", None) or ast.unparse(argument)


def test_the_list_has_every_option_that_the_installed_fairseq_evaluates():
    root = Path(fairseq.__file__).parent
    files = [path for path in root.rglob("*.py") if "examples" not in path.relative_to(root).parts]
    found = {name for path in files for name in evaluated_names(path)}
    own = {"x"}  # of the functions that evaluate, in fairseq/utils.py
    renamed = {"line.strip()": "line"}
    unknown = {renamed.get(name, name) for name in found - own} - set(EVALUATED) - set(UNREACHABLE)
    assert not unknown and "adaptive_softmax_cutoff" in found


@pytest.mark.parametrize(
    "name,value",
    [
        ("adaptive_softmax_cutoff", None),
        ("adaptive_softmax_cutoff", "1000,-2000"),
        ("adaptive_softmax_cutoff", [1000, 2000]),
        ("adam_betas", "(0.9, 0.98)"),
        ("adam_betas", "(0.9, 1 - 0.02 / 2)"),
        ("encoder_layers", 6),
        ("encoder_layers", "[(512, 3)] * 4 + [(1024, 3)]"),
        ("encoder_xformers_att_config", "{'name': 'linear'}"),
        ("encoder_attention", "[True] * 3 + [False]"),
        ("wer_args", ("lexicon.txt", "a(b)")),
        ("save_dir", "print(1)"),  # is not evaluated
        ("save_dir", "${common.tensorboard_logdir}"),
    ],
)
def test_what_fairseq_means_passes(name, value):
    check_evaluated(argparse.Namespace(**{name: value}), {"model": {name: value}}, None)


PROGRAM = "(open('marker', 'w').close(), [100, 200])[1]"


@pytest.mark.parametrize("value", [PROGRAM, PROGRAM.encode(), "x", "[*x]", "f'{x}'", "().__class__", "9 " * 10**6])
@pytest.mark.parametrize(
    "nested",
    [
        lambda **option: argparse.Namespace(**option),
        lambda **option: {"model": argparse.Namespace(**option)},
        lambda **option: {"task": [({"deep": option},)]},
        lambda **option: OmegaConf.create({"model": argparse.Namespace(**option)}, flags={"allow_objects": True}),
        lambda **option: OmegaConf.create({"criterion": option}),
    ],
)
def test_a_program_is_refused_wherever_it_is(value, nested):
    for name in ("adam_betas", "encoder_layers"):
        with pytest.raises(ValueError, match=rf"refused: its option {name} is not .* but .*, which fairseq would"):
            check_evaluated(nested(**{name: value}))


@pytest.mark.parametrize(
    "name,value", [("adam_betas", "{}"), ("adaptive_softmax_cutoff", "'x'"), ("wer_args", "3"), ("downsample", "{}")]
)
def test_a_literal_of_another_type_is_refused(name, value):
    with pytest.raises(ValueError, match=f"its option {name} is not"):
        check_evaluated({name: value})


def test_the_options_of_one_side_are_found_where_fairseq_finds_them():
    """fairseq reads ``encoder`` and ``decoder`` of a configuration as dictionaries, without the prefix."""
    program = "open('marker', 'w')"
    side = TransformerConfig.from_namespace(argparse.Namespace(decoder={"xformers_att_config": program})).decoder
    assert side.xformers_att_config == program
    with pytest.raises(ValueError, match="its option xformers_att_config is not a dictionary"):
        check_evaluated(argparse.Namespace(decoder={"xformers_att_config": program}))


def test_what_omegaconf_would_compute_is_refused_and_a_circle_ends():
    circle = {"model": {}}
    circle["model"]["up"] = circle
    check_evaluated(circle)
    circle["model"]["name"] = "${common.name}${.up}"
    check_evaluated(circle)
    program = "'{adam_betas: \"print()\"}'"
    for computed in ("oc.decode", "${common.x}", "oc.${common.x}", "${common.${y}}"):
        circle["model"]["name"] = f"${{{computed}:{program}}}"
        with pytest.raises(ValueError, match=r"its option name is .*, which would be computed"):
            check_evaluated(circle)


def test_a_loader_that_others_have_wrapped_is_wrapped_too_and_ours_once(monkeypatch):
    stock = checkpoint_utils.load_checkpoint_to_cpu.__wrapped__
    foreign = functools.wraps(stock)(lambda path: {"args": argparse.Namespace(adam_betas="print()"), "model": {}})
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint_to_cpu", foreign)
    install()
    ours = checkpoint_utils.load_checkpoint_to_cpu
    with pytest.raises(ValueError, match=r"x\.pt: refused: its option adam_betas"):
        ours("x.pt")
    monkeypatch.setattr(checkpoint_utils, "load_checkpoint_to_cpu", functools.wraps(ours)(lambda *args: ours(*args)))
    outer = checkpoint_utils.load_checkpoint_to_cpu
    install()
    assert checkpoint_utils.load_checkpoint_to_cpu is outer


@pytest.fixture
def hostile(trained, tmp_path):
    """A model folder whose checkpoint has a program for an option, and a module to import that leaves a mark."""
    folder = shutil.copytree(trained, tmp_path / "model")
    (tmp_path / "user" / "plugin").mkdir(parents=True)
    (tmp_path / "user" / "plugin" / "__init__.py").write_text(f"open({str(tmp_path / 'marker')!r}, 'w')")
    state = torch.load(folder / "checkpoint.pt", weights_only=True)
    state["cfg"]["common"]["user_dir"] = str(tmp_path / "user" / "plugin")

    def write(program):
        state["cfg"]["model"].adaptive_softmax_cutoff = program
        torch.save(state, folder / "checkpoint.pt")
        return folder

    return write


def test_a_program_in_a_checkpoint_is_never_run_and_its_user_dir_never_imported(hostile, data, tmp_path):
    folder, marker = hostile(PROGRAM.replace("marker", str(tmp_path / "marker"))), tmp_path / "marker"
    checkpoint = folder / "checkpoint.pt"
    with pytest.raises(
        CheckpointError, match=r"checkpoint\.pt: refused: its option adaptive_softmax_cutoff is not numb"
    ):
        load_checkpoint(checkpoint)
    with pytest.raises(ValueError, match=r"checkpoint\.pt: refused: its option adaptive_softmax_cutoff is not numbers"):
        checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)])
    one_line(run("scripts/translate.sh", folder, input="a\n", fails=True), "refused: its option adaptive_softmax_cut")
    train = ["--arch", "roformer_tiny", "--optimizer", "adam", "--restore-file", checkpoint]
    for name, options in {
        "generate": ["--path", checkpoint],
        "validate": ["--path", checkpoint],
        "train": train,
    }.items():
        failed = tool(name, data, *options, "--task", "translation", "--max-tokens", 600, fails=True, cwd=tmp_path)
        assert "refused: its option adaptive_softmax_cutoff" in failed.stderr, name
    assert not marker.exists()
    hostile(None)
    assert run("scripts/translate.sh", folder, input="a\n").stdout and not marker.exists()
