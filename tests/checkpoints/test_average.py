"""Checkpoint averaging: the arithmetic, what it keeps, what it refuses, and its command."""

import argparse
import pickle

import pytest
import torch

from fairseq_rope.__main__ import main
from fairseq_rope.checkpoints.average import average_checkpoints, find_checkpoints
from fairseq_rope.checkpoints.files import CheckpointError, load_checkpoint, save_checkpoint

from ..commands import failure
from ..disks import full_disk, read_only
from ..helpers import Malicious


def checkpoint(path, value, dtype=torch.float32, **changes):
    model = {"w": torch.full((2, 3), value, dtype=dtype), "steps": torch.tensor(int(value)), **changes}
    model = {name: tensor for name, tensor in model.items() if tensor is not None}
    torch.save(
        {"args": argparse.Namespace(arch="x"), "cfg": {"a": 1}, "model": model, "last_optimizer_state": {}}, path
    )
    return path


def test_the_mean_is_exact_and_the_configuration_stays(tmp_path):
    paths = [checkpoint(tmp_path / f"{i}.pt", float(i)) for i in (1, 2, 6)]
    state = average_checkpoints(paths)
    assert torch.equal(state["model"]["w"], torch.full((2, 3), 3.0))
    assert state["model"]["steps"] == 6  # not a parameter: from the last one
    assert state["cfg"] == {"a": 1} and state["args"].arch == "x"
    assert "last_optimizer_state" not in state
    assert state["averaged_from"] == ["1.pt", "2.pt", "6.pt"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sums_are_in_fp32_whatever_is_stored(tmp_path, dtype):
    # in half precision 2048 + 1 is 2048, and 60000 + 60000 overflows fp16
    values = [2048.0, 4.0, 4.0, 4.0] if dtype == torch.bfloat16 else [60000.0, 60000.0, 30000.0, 2048.0]
    state = average_checkpoints([checkpoint(tmp_path / f"{i}.pt", v, dtype) for i, v in enumerate(values)])
    assert state["model"]["w"].dtype == dtype
    assert torch.equal(state["model"]["w"], torch.full((2, 3), sum(values) / 4).to(dtype))


def test_the_last_checkpoints_are_found_by_number_not_by_name(tmp_path):
    for name in (
        "checkpoint_1_900.pt",
        "checkpoint_2_1000.pt",
        "checkpoint_2_1100.pt",
        "checkpoint3.pt",
        "checkpoint12.pt",
    ):
        (tmp_path / name).touch()
    (tmp_path / "checkpoint_last.pt").touch()
    names = lambda paths: [p.name for p in paths]  # noqa: E731
    assert names(find_checkpoints(tmp_path, 2)) == ["checkpoint_2_1000.pt", "checkpoint_2_1100.pt"]
    assert names(find_checkpoints(tmp_path, 2, upper=1000)) == ["checkpoint_1_900.pt", "checkpoint_2_1000.pt"]
    assert names(find_checkpoints(tmp_path, 2, by="epochs")) == ["checkpoint3.pt", "checkpoint12.pt"]
    with pytest.raises(CheckpointError, match="3 checkpoints by updates, but 4 are to be averaged"):
        find_checkpoints(tmp_path, 4)
    with pytest.raises(CheckpointError, match="no such folder"):
        find_checkpoints(tmp_path / "nowhere", 4)


@pytest.mark.parametrize(
    "changes,message",
    [
        (dict(w=None), "b.pt: has no parameter w"),
        (dict(extra=torch.ones(1)), "b.pt: alone has parameter extra"),
        (dict(w=torch.ones(3, 2)), r"b.pt: parameter w has shape \(3, 2\) instead of \(2, 3\)"),
        (dict(w=torch.tensor([[float("nan")] * 3] * 2)), "b.pt: parameter w holds NaN or infinity"),
        (dict(w=torch.tensor([[float("inf")] * 3] * 2)), "b.pt: parameter w holds NaN or infinity"),
    ],
)
def test_checkpoints_that_do_not_fit_are_refused_by_file_and_name(tmp_path, changes, message):
    paths = [checkpoint(tmp_path / "a.pt", 1.0), checkpoint(tmp_path / "b.pt", 2.0, **changes)]
    with pytest.raises(CheckpointError, match=message):
        average_checkpoints(paths)


@pytest.mark.parametrize("kind", ["truncated", "empty", "text", "pickle", "zip with a pickle", "another", "missing"])
def test_files_that_cannot_be_used_give_one_line_and_leave_nothing(tmp_path, monkeypatch, capsys, kind):
    monkeypatch.chdir(tmp_path)
    path, other = tmp_path / "bad.pt", checkpoint(tmp_path / "good.pt", 1.0)
    data = {
        "truncated": other.read_bytes()[:-200],
        "empty": b"",
        "text": b"not a checkpoint\n" * 99,
        "pickle": pickle.dumps(Malicious()),
    }
    if kind in data:
        path.write_bytes(data[kind])
    elif kind == "zip with a pickle":
        torch.save({"model": {"w": Malicious()}}, path)
    elif kind == "another":
        torch.save([1, 2], path)
    message = failure(capsys, "average", "--inputs", other, path, "--out", tmp_path / "out.pt")
    assert message.startswith(f"fairseq-rope: error: {path}: ")
    assert {p.name for p in tmp_path.iterdir()} <= {"good.pt", "bad.pt"}  # nothing was run, nothing written
    if "pickle" in kind:
        assert "refused" in message


def test_saving_is_atomic(tmp_path, monkeypatch):
    target = tmp_path / "out.pt"
    save_checkpoint({"cfg": {}, "model": {"w": torch.ones(1)}}, target)

    def killed(state, path):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(torch, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint({"model": {}}, target)
    assert load_checkpoint(target)["model"]["w"] == 1
    assert [p.name for p in tmp_path.iterdir()] == ["out.pt"]


def test_a_checkpoint_that_is_named_twice_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path, other = checkpoint(tmp_path / "one.pt", 1.0), checkpoint(tmp_path / "two.pt", 2.0)
    message = failure(capsys, "average", "--inputs", path, other, "one.pt", "--out", tmp_path / "out.pt")
    assert message == f"fairseq-rope: error: {path} is named twice: name each checkpoint once\n"


def test_averages_the_last_of_a_folder_or_the_files_given(tmp_path, capsys):
    for update in (2, 10, 20, 30):
        checkpoint(tmp_path / f"checkpoint_1_{update}.pt", float(update))
    checkpoint(tmp_path / "checkpoint1.pt", 7.0)
    out = ["--out", str(tmp_path / "new/out.pt")]

    def mean(*arguments):
        assert main(["average", *map(str, arguments), *out]) == 0
        return load_checkpoint(tmp_path / "new/out.pt")["model"]["w"][0, 0].item()

    assert mean(tmp_path, "--last", 2) == 25
    assert capsys.readouterr() == (f"{out[1]}: average of checkpoint_1_20.pt, checkpoint_1_30.pt\n", "")
    assert mean(tmp_path, "--last", 2, "--upper", 20) == 15
    assert mean(tmp_path, "--last", 1, "--by", "epochs") == 7
    assert mean("--inputs", tmp_path / "checkpoint_1_2.pt", tmp_path / "checkpoint_1_10.pt") == 6
    checkpoint(tmp_path / "checkpoint_1_38.pt", 38.0)
    assert mean(tmp_path) == (2 + 10 + 20 + 30 + 38) / 5
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["out.pt"]


@pytest.mark.parametrize(
    "arguments, status, message",
    [
        (["F"], 2, "--out"),
        (["--out", "O"], 2, "one of the arguments FOLDER --inputs is required"),
        (["F", "--inputs", "A", "--out", "O"], 2, "not allowed with argument"),
        (["F", "--last", "0", "--out", "O"], 2, "--last: must be a whole number of at least 1, not '0'"),
        (["F", "--by", "hours", "--out", "O"], 2, "--by: invalid choice: 'hours'"),
        (["F", "--la", "2", "--out", "O"], 2, "unrecognized arguments: --la"),
        (["--inputs", "A", "--last", "5", "--out", "O"], 2, "leave them out with --inputs (see fairseq-rope average"),
        (["--inputs", "A", "--by", "updates", "--out", "O"], 2, "leave them out with --inputs"),
        (["--inputs", "A", "--upper", "0", "--out", "O"], 2, "leave them out with --inputs"),
        (["--inputs", "A", "--out", "O"], 1, "A: no such checkpoint"),
        (["F", "--out", "O"], 1, "F: no such folder"),
        ([".", "--upper", "9", "--out", "O"], 1, ".: 0 checkpoints by updates up to 9, but 5 are to be averaged"),
    ],
)
def test_wrong_averages_are_refused(tmp_path, monkeypatch, capsys, arguments, status, message):
    monkeypatch.chdir(tmp_path)
    assert message in failure(capsys, "average", *arguments, status=status)
    assert not list(tmp_path.iterdir())


def test_an_output_that_cannot_be_written_is_named(tmp_path, capsys):
    source, folder = checkpoint(tmp_path / "a.pt", 1.0), tmp_path / "folder"
    folder.mkdir()
    assert str(folder) in failure(capsys, "average", "--inputs", source, "--out", folder)
    assert sorted(tmp_path.iterdir()) == [source, folder] and not list(folder.iterdir())


@pytest.mark.parametrize("free", [0, 1024])
def test_a_disk_without_room_for_an_average_is_named_and_stays_as_it_is(tmp_path, capsys, free):
    source = checkpoint(tmp_path / "a.pt", 1.0, w=torch.zeros(5000))
    with full_disk(tmp_path / "full", free) as disk:
        message = failure(capsys, "average", "--inputs", source, "--out", disk / "out.pt")
        assert f"{disk / 'out.pt'}: " in message and [path.name for path in disk.iterdir()] == ["fill"]
    with read_only(tmp_path):
        message = failure(capsys, "average", "--inputs", source, "--out", tmp_path / "out.pt")
    assert message == f"fairseq-rope: error: {tmp_path / 'out.pt'}: Read-only file system\n"
