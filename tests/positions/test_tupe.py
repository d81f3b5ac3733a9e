"""TUPE: the matrix of the positions, the reset, what is computed how often."""

import pytest
import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from fairseq_rope.positions.relative import bias_of_rows

from ..helpers import EOS, build_felt, decoder_input, pad, sentences


@pytest.mark.parametrize("encoding", ["tupe_a", "tupe_r", "learned"])
def test_a_sentence_longer_than_the_table_is_refused_with_the_flag(encoding):
    model = build_felt(encoding, max_source_positions=6, max_target_positions=5)
    model(pad(sentences(1, 6), left=3), None, decoder_input(sentences(1, 5)))  # padding does not count
    with pytest.raises(ValueError, match=r"7 tokens .*--max-source-positions"):
        model(sentences(1, 7), None, decoder_input(sentences(1, 5)))
    with pytest.raises(ValueError, match=r"6 tokens .*--max-target-positions"):
        model(sentences(1, 6), None, decoder_input(sentences(1, 6)))


def test_on_a_gpu_the_bias_has_neighbouring_keys_side_by_side():
    """PyTorch's kernels take no other one. Tensors without memory go the way of a GPU's."""
    bias = bias_of_rows(torch.zeros(2, 5, 6, dtype=torch.long, device="meta"), torch.zeros(32, 4, device="meta"))
    assert bias.shape == (2, 4, 5, 6) and bias.stride(-1) == 1


def test_the_special_symbol_is_found_by_its_token_in_source_and_target():
    model, source = build_felt("tupe_a"), torch.cat([pad(sentences(1, 4), left=3), sentences(1, 7)])
    found = model.encoder.position.positions_of(source)
    assert torch.equal(found.special, source.eq(EOS)) and found.special[:, -1].all()
    assert found.positions.tolist() == [[0, 0, 0, 0, 1, 2, 3], list(range(7))]
    target = torch.cat([pad(decoder_input(sentences(1, 3)), right=1), decoder_input(sentences(1, 4))])
    found = model.decoder.position.positions_of(target)
    assert found.special.tolist() == [[True, False, False, False]] * 2
    assert found.positions.tolist() == [[0, 1, 2, 3]]  # one row for all: padding stands behind them alone


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
