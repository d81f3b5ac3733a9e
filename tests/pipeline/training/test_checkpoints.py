"""The checkpoints of a run: which is the newest, which is kept, what a kill has damaged."""

import argparse

import pytest
import torch

from pipeline.command import Failure
from pipeline.training.checkpoints import by_updates, keep_last, newest_updates, repair


def checkpoint(folder, name, updates):
    state = {"args": argparse.Namespace(arch="x"), "model": {}, "optimizer_history": [{"num_updates": updates}]}
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(state, folder / name)
    return folder / name


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_is_that_of_most_updates_not_the_last_name(tmp_path):
    for name in ("checkpoint_1_900.pt", "checkpoint_2_1000.pt", "checkpoint_9_20.pt", "checkpoint3.pt"):
        (tmp_path / name).touch()
    assert [updates for updates, _ in by_updates(tmp_path)] == [1000, 900, 20] and newest_updates(tmp_path) == 1000
    assert newest_updates(tmp_path / "nowhere") == 0


def test_the_last_checkpoint_of_an_epoch_is_among_those_by_updates(tmp_path):
    checkpoint(tmp_path, "checkpoint_1_4.pt", 4)
    last = checkpoint(tmp_path, "checkpoint_last.pt", 5)
    assert keep_last(tmp_path) == 5
    assert (tmp_path / "checkpoint_0_5.pt").read_bytes() == last.read_bytes()
    assert names(tmp_path) == ["checkpoint_0_5.pt", "checkpoint_1_4.pt", "checkpoint_last.pt"]
    assert keep_last(tmp_path) == 5 and len(names(tmp_path)) == 3  # it is there now


def test_training_goes_on_from_the_newest_checkpoint_that_loads(tmp_path, capsys):
    good = checkpoint(tmp_path, "checkpoint_1_4.pt", 4).read_bytes()
    for name in ("checkpoint_1_6.pt", "checkpoint_last.pt", "checkpoint_1_8.pt.tmp"):
        (tmp_path / name).write_bytes(good[:100])
    repair(tmp_path, 2)
    assert names(tmp_path) == ["checkpoint_1_4.pt", "checkpoint_1_6.pt.damaged", "checkpoint_last.pt"]
    assert (tmp_path / "checkpoint_last.pt").read_bytes() == good and newest_updates(tmp_path) == 4
    assert "checkpoint_last.pt is damaged: training goes on from checkpoint_1_4.pt\n" in capsys.readouterr().err


def test_a_last_checkpoint_that_a_kill_kept_from_being_copied_is_copied(tmp_path, capsys):
    newest = checkpoint(tmp_path, "checkpoint_1_6.pt", 6).read_bytes()
    checkpoint(tmp_path, "checkpoint_last.pt", 4)
    repair(tmp_path, 2)
    assert (tmp_path / "checkpoint_last.pt").read_bytes() == newest
    assert "checkpoint_last.pt is older: training goes on from checkpoint_1_6.pt\n" in capsys.readouterr().err


def test_a_continued_training_has_the_checkpoints_of_an_uninterrupted_one(tmp_path):
    for name, updates in (("1_2", 2), ("1_4", 4), ("0_5", 5), ("last", 5)):
        checkpoint(tmp_path, f"checkpoint_{name}.pt", updates)
    repair(tmp_path, 2)  # 5 was the end
    assert names(tmp_path) == ["checkpoint_1_2.pt", "checkpoint_1_4.pt", "checkpoint_last.pt"]
    last = checkpoint(tmp_path, "checkpoint_last.pt", 6)  # at the end of an epoch, before the worker copied it
    repair(tmp_path, 2)
    assert (tmp_path / "checkpoint_0_6.pt").read_bytes() == last.read_bytes() and len(names(tmp_path)) == 4
    alone = checkpoint(tmp_path / "alone", "checkpoint_last.pt", 2)
    repair(tmp_path / "alone", 2)
    assert names(tmp_path / "alone") == ["checkpoint_0_2.pt", alone.name]


def test_where_the_newest_by_updates_is_damaged_the_last_one_stays(tmp_path):
    good = checkpoint(tmp_path, "checkpoint_last.pt", 6).read_bytes()
    checkpoint(tmp_path, "checkpoint_1_4.pt", 4)
    (tmp_path / "checkpoint_1_6.pt").write_bytes(good[:100])
    repair(tmp_path, 2)
    assert (tmp_path / "checkpoint_last.pt").read_bytes() == good
    assert keep_last(tmp_path) == 6 and newest_updates(tmp_path) == 6


def test_without_a_checkpoint_that_loads_training_does_not_go_on(tmp_path):
    with pytest.raises(Failure, match="ended before its first checkpoint"):
        keep_last(tmp_path)
    (tmp_path / "checkpoint_last.pt").write_bytes(b"damaged")
    with pytest.raises(Failure, match="there is no other checkpoint: remove"):
        repair(tmp_path, 2)
