"""TUPE: the matrix of the positions, the reset, what is computed how often."""

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from fairseq_rope.positions.relative import bias_of_rows

from ..helpers import build_felt, decoder_input, sentences


def test_on_a_gpu_the_bias_has_neighbouring_keys_side_by_side():
    """PyTorch's kernels take no other one. Tensors without memory go the way of a GPU's."""
    bias = bias_of_rows(torch.zeros(2, 5, 6, dtype=torch.long, device="meta"), torch.zeros(32, 4, device="meta"))
    assert bias.shape == (2, 4, 5, 6) and bias.stride(-1) == 1


def test_a_step_of_decoding_projects_one_row_and_no_key():
    """Besides the two rows of the reset."""
    model, rows = build_felt("tupe_r", decoder_layers=3), {"q_proj": [], "k_proj": []}
    weights = {name: getattr(model.decoder.position, name).weight for name in rows}

    class Counted(TorchFunctionMode):  # a hook would be heard in each step
        def __torch_function__(self, function, types, args=(), kwargs=None):
            for name in rows:
                if function is F.linear and args[1] is weights[name]:
                    rows[name].append(args[0].numel() // 32)
            return function(*args, **(kwargs or {}))

    encoder_out, target, state = model.encoder(sentences(4, 5), None), decoder_input(sentences(4, 9, seed=2)), {}
    for t in range(9):
        with Counted():
            model.decoder(target[:, : t + 1], encoder_out=encoder_out, incremental_state=state)
        assert sum(rows["q_proj"]) == (t + 1) * (1 + 2) and sum(rows["k_proj"]) == (t + 1) * 2
