"""Checkpoints are written whole, and the same model gives the same bytes; reading is tested with averaging."""

import pytest
import torch

from fairseq_rope.checkpoints.files import CheckpointError, making_folder, replacing, save_checkpoint

STATE = {"cfg": {}, "model": {"w": torch.arange(6.0)}}


def test_the_same_checkpoint_has_the_same_bytes_in_each_folder(tmp_path):
    for folder in ("a", "b"):
        save_checkpoint(STATE, tmp_path / folder / "checkpoint.pt")
    first, second = (path.read_bytes() for path in tmp_path.glob("*/checkpoint.pt"))
    assert first == second


def test_a_full_disk_is_named_in_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    def full(state, path):
        path.write_bytes(b"half")
        raise RuntimeError("PytorchStreamWriter failed writing file data/0\nException raised from ...")

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(CheckpointError, match=r"x\.pt: cannot be written, is there room\?") as error:
        save_checkpoint(STATE, tmp_path / "x.pt")
    assert "\n" not in str(error.value) and not list(tmp_path.iterdir())


def test_two_writers_of_one_file_do_not_meet(tmp_path):
    path = tmp_path / "a"
    with replacing(path) as one, replacing(path) as other:
        one.write_text("one")
        other.write_text("other")
    assert path.read_text() == "one" and list(tmp_path.iterdir()) == [path]


def test_of_two_makers_of_one_folder_the_later_one_is_told_that_it_exists(tmp_path):
    path = tmp_path / "a"
    with pytest.raises(CheckpointError, match=f"^{path} exists already: choose another folder"):  # noqa: SIM117
        with making_folder(path) as later:
            with making_folder(path) as first:
                (first / "file").write_text("first")
            (later / "file").write_text("later")
    assert (path / "file").read_text() == "first" and list(tmp_path.iterdir()) == [path]
