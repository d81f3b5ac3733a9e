"""The command that checks a checkpoint: the functions behind it are tested with averaging."""

import argparse

import pytest
import torch

from pipeline.training.checkpoint import main


def test_it_prints_the_updates_and_nothing_else(tmp_path, capsys):
    state = {"args": argparse.Namespace(arch="x"), "cfg": None, "model": {}}
    torch.save({**state, "optimizer_history": [{"num_updates": 3}, {"num_updates": 12}]}, tmp_path / "a.pt")
    main([str(tmp_path / "a.pt")])
    assert capsys.readouterr() == ("12\n", "")


def test_what_cannot_be_loaded_is_named_in_one_line(tmp_path):
    with pytest.raises(SystemExit, match=r"^error: .*none.pt: no such checkpoint$"):
        main([str(tmp_path / "none.pt")])
