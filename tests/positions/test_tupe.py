"""TUPE: the matrix of the positions, the reset, what is computed how often."""

import math

import pytest
import torch
import torch.nn.functional as F

from fairseq_rope.positions.relative import bucket_bias
from fairseq_rope.positions.tupe import TupeAOptions, TupeROptions, UntiedAbsoluteEncoding, UntiedRelativeEncoding

from ..helpers import EOS, FP32, build_felt, decoder_input, pad, randomised, sentences, stack, steps

H, D = 4, 8


def untied(causal=False, **options):
    torch.manual_seed(0)
    return randomised(UntiedAbsoluteEncoding(stack(causal=causal), TupeAOptions(**options)))


def loop(encoding, positions, special):
    """The matrix ``(H, T, T)`` of one sentence, written out entry by entry (Ke et al. 2021, eqs. 7, 9 and 10)."""

    def projected(projection, row, head):
        p = F.layer_norm(encoding.table[row], (H * D,), encoding.norm.weight, encoding.norm.bias)
        return projection(p)[head * D : (head + 1) * D]

    matrix = torch.empty(H, len(positions), len(positions))
    for h in range(H):
        for a, i in enumerate(positions):
            for b, j in enumerate(positions):
                rows = (0, 0) if special[a] else (1, 1) if special[b] else (2 + i, 2 + j)
                q, k = projected(encoding.q_proj, rows[0], h), projected(encoding.k_proj, rows[1], h)
                matrix[h, a, b] = q @ k / math.sqrt(2 * D)
    return matrix


def test_the_matrix_equals_a_loop_for_padded_sentences_with_the_special_symbol_anywhere():
    encoding = untied()
    positions = torch.tensor([[0, 1, 2, 3, 4], [0, 0, 0, 1, 2], [0, 0, 1, 2, 3]])  # left-padded by 0, 2 and 1
    special = torch.tensor([[0, 0, 0, 0, 1], [0, 0, 0, 0, 1], [0, 1, 0, 1, 0]]).bool()
    places = steps(positions)._replace(special=special)
    bias = encoding.prepare(places, places)["bias"]
    for b in range(3):
        torch.testing.assert_close(bias[b], loop(encoding, positions[b].tolist(), special[b].tolist()), **FP32)


def test_sentences_of_one_length_with_special_symbols_in_different_places_differ():
    encoding, positions = untied(), torch.arange(4).repeat(2, 1)
    special = torch.tensor([[0, 0, 0, 1], [0, 1, 0, 1]]).bool()
    places = steps(positions)._replace(special=special)
    bias = encoding.prepare(places, places)["bias"]
    for b in range(2):
        torch.testing.assert_close(bias[b], loop(encoding, range(4), special[b].tolist()), **FP32)


def test_the_four_corners_of_the_reset():
    """(special, special) and (special, other) are theta 1, (other, special) is theta 2, (other, other) is not reset."""
    encoding, plain = untied(), untied(no_reset=True)
    places = steps(range(4), special=(0,))
    bias, correlation = (e.prepare(places, places)["bias"][0] for e in (encoding, plain))
    theta_1, theta_2 = bias[:, 0, 0], bias[:, 1, 0]
    assert torch.equal(bias[:, 0, :], theta_1[:, None].expand(H, 4))
    assert torch.equal(bias[:, 1:, 0], theta_2[:, None].expand(H, 3))
    assert torch.equal(bias[:, 1:, 1:], correlation[:, 1:, 1:])
    assert (theta_1 - theta_2).abs().min() > 1e-3 and (bias - correlation)[:, 0].abs().max() > 1e-3


def test_the_special_symbol_is_found_by_its_token_in_source_and_target():
    model = build_felt("tupe_a")
    seen = {}
    for side in (model.encoder, model.decoder):
        prepare = side.position.prepare

        def spy(query, key, side=side, prepare=prepare):
            seen[side] = key
            return prepare(query, key)

        side.position.prepare = spy
    source = torch.cat([pad(sentences(1, 4), left=3), sentences(1, 7)])
    target = torch.cat([pad(decoder_input(sentences(1, 3)), right=1), decoder_input(sentences(1, 4))])
    model(source, None, target)
    assert torch.equal(seen[model.encoder].special, source.eq(EOS)) and seen[model.encoder].special[:, -1].all()
    assert seen[model.decoder].special.tolist() == [[True, False, False, False]] * 2
    assert seen[model.encoder].positions.tolist() == [[0, 0, 0, 0, 1, 2, 3], list(range(7))]


def test_the_relative_part_is_reset_apart():
    torch.manual_seed(0)
    options = TupeROptions(buckets=8, max_distance=6)
    relative = randomised(UntiedRelativeEncoding(stack(), options))
    absolute = untied()
    absolute.load_state_dict({n: p for n, p in relative.state_dict().items() if n != "relative"})
    places = steps(range(6), special=(5,))
    part = relative.prepare(places, places)["bias"][0] - absolute.prepare(places, places)["bias"][0]  # (H, T, T)
    torch.testing.assert_close(part[:, 5, :], relative.relative[9, :, None].expand(H, 6), **FP32)
    torch.testing.assert_close(part[:, :5, 5], relative.relative[8, :, None].expand(H, 5), **FP32)
    for distance in range(-4, 5):  # elsewhere it depends on the distance only
        diagonal = part[:, :5, :5].diagonal(distance, 1, 2)
        torch.testing.assert_close(diagonal, diagonal[:, :1].expand_as(diagonal), **FP32)


class Rows:
    """How many rows pass through each projection."""

    def __init__(self, encoding):
        self.count = {"q_proj": 0, "k_proj": 0}
        for name in self.count:
            getattr(encoding, name).register_forward_hook(lambda _, x, __, name=name: self.add(name, x[0]))

    def add(self, name, x):
        self.count[name] += x.numel() // x.size(-1)


def test_the_positions_are_projected_once_for_all_sentences_and_layers():
    model = build_felt("tupe_a", encoder_layers=5)
    rows = Rows(model.encoder.position)
    source = torch.cat([pad(sentences(1, 4), left=5), pad(sentences(1, 7), left=2), sentences(1, 9)])
    model.encoder(source, None)
    assert rows.count == {"q_proj": 9 + 2, "k_proj": 9 + 2}  # the positions, and the two rows of the reset


def test_a_step_of_decoding_projects_one_row_and_no_key():
    model = build_felt("tupe_r", decoder_layers=3)
    encoder_out, target, state = model.encoder(sentences(4, 5), None), decoder_input(sentences(4, 9, seed=2)), {}
    for t in range(9):
        rows = Rows(model.decoder.position)
        model.decoder(target[:, : t + 1], encoder_out=encoder_out, incremental_state=state)
        assert rows.count == {"q_proj": 1 + 2, "k_proj": 2}


@pytest.mark.parametrize("encoding", ["tupe_a", "tupe_r", "learned"])
def test_a_sentence_longer_than_the_table_is_refused_in_one_line(encoding):
    model = build_felt(encoding, max_source_positions=6, max_target_positions=5)
    model(pad(sentences(1, 6), left=3), None, decoder_input(sentences(1, 5)))  # padding does not count
    message = "a sentence of 7 tokens is longer than the encoder's table of 6 positions: .* --max-source-positions"
    with pytest.raises(ValueError, match=message):
        model(sentences(1, 7), None, decoder_input(sentences(1, 5)))
    message = "a sentence of 6 tokens is longer than the decoder's table of 5 positions: .* --max-target-positions"
    with pytest.raises(ValueError, match=message):
        model(sentences(1, 6), None, decoder_input(sentences(1, 6)))


def test_sinusoids_have_no_such_limit():
    short, long = (
        build_felt("sinusoidal", max_source_positions=limit, max_target_positions=limit) for limit in (6, 64)
    )
    source, target = sentences(1, 20), decoder_input(sentences(1, 20))
    assert torch.equal(short(source, None, target)[0], long(source, None, target)[0])


def test_on_a_gpu_the_bias_has_neighbouring_keys_side_by_side():
    """PyTorch's kernels take no other one. Tensors without memory go the way of a GPU's."""
    bias = bucket_bias(torch.zeros(2, 5, 6, dtype=torch.long, device="meta"), torch.zeros(32, 4, device="meta"))
    assert bias.shape == (2, 4, 5, 6) and bias.stride(-1) == 1
