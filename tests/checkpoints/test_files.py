"""Checkpoints are written whole, and the same model gives the same bytes; those that diverged are not used.

More about reading is tested with averaging.
"""

import pytest
import torch

from fairseq_rope.checkpoints.files import CheckpointError, check_finite, save_checkpoint
from fairseq_rope.checkpoints.model_folder import load_model, read_languages

from ..commands import failure
from ..model_folders import run_folder

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
        for opened in (read_languages, load_model):
            with pytest.raises(CheckpointError, match=r"checkpoint\.pt: .* decoder\.layers\.1\.fc1\.bias"):
                opened(folder)
        check_finite({"encoder.embed_positions._float_tensor": torch.tensor([bad])}, folder)
        command = ["convert", folder, "--to", "half", "--out", tmp_path / "out"]
        assert "decoder.layers.1.fc1.bias" in failure(capsys, *command) and not (tmp_path / "out").exists()
