"""Checkpoints: averaging, what it keeps and refuses, and its command; how they are written, and which are not used."""

import argparse
import pickle

import pytest
import torch

from fairseq_rope.__main__ import main
from fairseq_rope.checkpoints.average import average_checkpoints
from fairseq_rope.checkpoints.files import CheckpointError, check_finite, load_checkpoint, save_checkpoint
from fairseq_rope.checkpoints.model_folder import load_model, read_direction

from ..commands import failure
from ..helpers import Malicious
from ..model_folders import run_folder


def checkpoint(path, value, dtype=torch.float32, **changes):
    model = {"w": torch.full((2, 3), value, dtype=dtype), "steps": torch.tensor(int(value)), **changes}
    model = {name: tensor for name, tensor in model.items() if tensor is not None}
    state = {"args": argparse.Namespace(arch="x"), "cfg": {"a": 1}, "model": model, "last_optimizer_state": {}}
    torch.save(state, path)
    return path


def test_the_mean_is_exact_and_the_configuration_stays(tmp_path):
    paths = [checkpoint(tmp_path / f"{i}.pt", float(i)) for i in (1, 2, 6)]
    state = average_checkpoints(paths)
    assert torch.equal(state["model"]["w"], torch.full((2, 3), 3.0))
    assert state["model"]["steps"] == 6  # not a parameter: from the last one
    assert state["cfg"] == {"a": 1} and state["args"].arch == "x"
    assert "last_optimizer_state" not in state
    assert state["averaged_from"] == ["1.pt", "2.pt", "6.pt"]


def test_sums_are_in_fp32_whatever_is_stored(tmp_path):
    # in half precision 2048 + 1 is 2048, and 60000 + 60000 overflows fp16
    stored = {torch.bfloat16: [2048.0, 4.0, 4.0, 4.0], torch.float16: [60000.0, 60000.0, 30000.0, 2048.0]}
    for dtype, values in stored.items():
        state = average_checkpoints([checkpoint(tmp_path / f"{i}.pt", v, dtype) for i, v in enumerate(values)])
        assert state["model"]["w"].dtype == dtype
        assert torch.equal(state["model"]["w"], torch.full((2, 3), sum(values) / 4).to(dtype))


def test_checkpoints_that_do_not_fit_are_refused_by_file_and_name(tmp_path):
    for parameter, changes in (
        ("w", dict(w=None)),
        ("extra", dict(extra=torch.ones(1))),
        ("w", dict(w=torch.ones(3, 2))),
        ("w", dict(w=torch.full((2, 3), torch.nan))),
    ):
        paths = [checkpoint(tmp_path / "a.pt", 1.0), checkpoint(tmp_path / "b.pt", 2.0, **changes)]
        with pytest.raises(CheckpointError, match=rf"b\.pt: .*parameter {parameter}"):
            average_checkpoints(paths)


def test_files_that_cannot_be_used_give_one_line_and_leave_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    good, bad = checkpoint(tmp_path / "good.pt", 1.0), tmp_path / "bad.pt"
    torch.save({"model": {"w": Malicious()}}, bad)
    for content, reason in (
        (good.read_bytes()[:-200], ""),
        (bad.read_bytes(), "refused"),  # a zip with a pickle
        (pickle.dumps(Malicious()), "refused"),
    ):
        bad.write_bytes(content)
        message = failure(capsys, "average", "--inputs", good, bad, "--out", tmp_path / "out.pt")
        assert str(bad) in message and reason in message
        assert {p.name for p in tmp_path.iterdir()} == {"good.pt", "bad.pt"}  # nothing was run, nothing written


def test_averages_the_last_of_a_folder_or_the_files_given(tmp_path, capsys, monkeypatch):
    for name in ("9_900", "10_1000", "10_1100", "3", "12"):  # by their numbers, not by their names
        checkpoint(tmp_path / f"checkpoint{'_' * ('_' in name)}{name}.pt", float(name.rpartition("_")[2]))
    out = ["--out", str(tmp_path / "new/out.pt")]

    def mean(*arguments):
        assert main(["average", *map(str, arguments), *out]) == 0
        return load_checkpoint(tmp_path / "new/out.pt")["model"]["w"][0, 0].item()

    assert mean(tmp_path, "--last", 2) == 1050
    assert mean(tmp_path, "--last", 2, "--upper", 1000) == 950
    assert mean(tmp_path, "--last", 1, "--by", "epochs") == 12
    first, second = tmp_path / "checkpoint_9_900.pt", tmp_path / "checkpoint3.pt"
    assert mean("--inputs", first, second) == 451.5
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out.pt"]
    monkeypatch.chdir(tmp_path)
    assert str(first) in failure(capsys, "average", "--inputs", first, second, first.name, *out)  # twice
    assert "--last 3" in failure(capsys, "average", tmp_path, "--last", 4, *out)


STATE = {"cfg": {}, "model": {"w": torch.arange(6.0)}}


def test_the_same_checkpoint_has_the_same_bytes_in_each_folder(tmp_path):
    for folder in ("a", "b"):
        save_checkpoint(STATE, tmp_path / folder / "checkpoint.pt")
    first, second = (path.read_bytes() for path in tmp_path.glob("*/checkpoint.pt"))
    assert first == second


def test_a_model_whose_training_diverged_is_refused(tmp_path, capsys):
    """By all that load it: to translate, to export, to draw, to convert."""
    folder = run_folder(tmp_path / "run", "roformer_tiny")
    state = torch.load(folder / "checkpoint.pt", weights_only=True)
    for bad in (torch.nan, torch.inf):
        state["model"]["decoder.layers.1.fc1.bias"][3] = bad
        torch.save(state, folder / "checkpoint.pt")
        for opened in (read_direction, load_model):
            with pytest.raises(CheckpointError, match=r"checkpoint\.pt: .* decoder\.layers\.1\.fc1\.bias"):
                opened(folder)
        check_finite({"encoder.embed_positions._float_tensor": torch.tensor([bad])}, folder)
        command = ["convert", folder, "--to", "half", "--out", tmp_path / "out"]
        assert "decoder.layers.1.fc1.bias" in failure(capsys, *command) and not (tmp_path / "out").exists()
