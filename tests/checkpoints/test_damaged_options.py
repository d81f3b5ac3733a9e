"""Options of a checkpoint that make no model: the commands that build it name the file in one line."""

import pytest
import torch

from ..commands import failure
from ..model_folders import language_run_folder, run_folder


@pytest.mark.parametrize("arch", ["roformer_tiny", "roformer_mlm_tiny", "roformer_lm_tiny"])
@pytest.mark.parametrize(
    "option, value, reason",
    [
        ("quant_noise_pq", "much", r"make no model (TypeError: '>' not supported"),
        ("layers_to_keep", "first", "make no model (ValueError: invalid literal for int()"),
        ("ffn_embed_dim", 64, "and its parameters do not fit (RuntimeError: Error(s) in loading state_dict"),
    ],
)
def test_odd_options_of_a_checkpoint_are_one_line_with_its_name(arch, option, value, reason, tmp_path, capsys):
    folder = (run_folder if arch == "roformer_tiny" else language_run_folder)(tmp_path / "run", arch)
    state = torch.load(folder / "checkpoint.pt", weights_only=True)
    side = "decoder" if "_lm_" in arch else "encoder"
    vars(state["cfg"]["model"])[option if option == "quant_noise_pq" else f"{side}_{option}"] = value
    torch.save(state, folder / "checkpoint.pt")
    for command in (["export", folder, tmp_path / "out"], ["plot", "bias", folder, "--out", tmp_path / "bias.png"]):
        message = failure(capsys, *command)
        assert f"error: {folder / 'checkpoint.pt'}: its options {reason}" in message
    assert list(tmp_path.iterdir()) == [folder]
