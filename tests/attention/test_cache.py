"""The cache of keys and values is a concatenation, and beams may share what they attend to in the encoder."""

import itertools

import pytest
import torch
from fairseq.modules import MultiheadAttention

from fairseq_rope.attention import EncoderAttention
from fairseq_rope.attention.cache import ROOM, KeyValueCache, tails
from fairseq_rope.attention.kernels import SHORT

from ..helpers import DEVICES, randomised

H, D = 2, 3

ORDERS = {
    "none": {},
    "permuted": {2: [[2, 0, 1]]},
    "repeated": {1: [[1, 1, 2]], 4: [[0, 0, 0]]},
    "longer": {1: [[0, 0, 1, 1, 2, 2]]},
    "shorter": {3: [[2]], 5: [[0]]},
    "longer, then shorter, then longer": {1: [[0, 1, 2, 0, 1, 2, 2]], 4: [[6, 1]], 6: [[1, 0, 0, 1, 1, 0, 1, 1, 0]]},
    "every step": {step: [[(step + i) % 3 for i in range(3)]] for step in range(1, 90)},
    "several in a row": {1: [[2, 1, 0], [0, 0, 1, 2], [3, 1]]},
}
"""The orders in which the rows go on, one after the other, by the step before which they come."""


def steps_of(batch, seed, dtype=torch.float, device="cpu"):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(batch, H, 1, D, generator=generator).to(device, dtype) for _ in range(2)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("grad", [False, True])
def test_appending_equals_concatenation_also_after_reordering(grad, device):
    for name, orders in ORDERS.items():
        cache, expected, batch = KeyValueCache(), None, 3
        with torch.set_grad_enabled(grad):
            for step in range(2 * ROOM + 9):  # beyond the room of the first buffer, and of the second
                for order in orders.get(step, []):
                    cache.reorder(torch.tensor(order, device=device))
                    expected, batch = [past[order] for past in expected], len(order)
                new = steps_of(batch, step, dtype=torch.bfloat16, device=device)
                expected = [torch.cat(pair, dim=2) for pair in zip(expected, new)] if step else new
                for actual, whole in zip(cache.append(*new), expected):
                    assert actual.dtype == torch.bfloat16 and torch.equal(actual, whole), (name, step)


def test_of_beams_that_begin_alike_only_the_ends_are_copied():
    """The beams of two sentences; a new token is like no other, so rows with the same tokens have one history."""
    beams, spared = 4, 0
    random = torch.Generator().manual_seed(0)
    cache, tokens = KeyValueCache(), torch.arange(2 * beams)[:, None] // beams
    expected = [torch.empty(2 * beams, H, 0, D) for _ in range(2)]
    with torch.no_grad():
        for step in range(3 * ROOM):
            new = steps_of(2 * beams, step)
            expected = [torch.cat(pair, dim=2) for pair in zip(expected, new)]
            for actual, whole in zip(cache.append(*new), expected):
                assert torch.equal(actual, whole), step
            moved = torch.arange(2 * beams)
            moved[step % 8] = moved[step % 8] // beams * beams + torch.randint(beams, (1,), generator=random)
            found = tails(tokens, moved)
            spared += found is not None
            cache.reorder(moved, found)
            expected = [past[moved] for past in expected]
            tokens = torch.cat([tokens[moved], 100 * step + torch.arange(2 * beams)[:, None]], dim=1)
    assert spared > ROOM
    assert tails(tokens, torch.arange(beams)) is None and tails(tokens, torch.tensor(2 * [3, 2, 1, 0])) is None


def attentions(device="cpu"):
    """This plugin's attention to the encoder and fairseq's, with the same weights."""
    torch.manual_seed(1)
    options = dict(encoder_decoder_attention=True, kdim=12, vdim=12)
    ours = randomised(EncoderAttention(16, 4, **options)).eval().to(device)
    stock = MultiheadAttention(16, 4, **options).eval().to(device)
    stock.load_state_dict(ours.state_dict())
    return ours, stock


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_beams_that_share_keys_equal_fairseqs_attention_with_repeated_keys(dtype, device):
    tolerance = 1e-6 if dtype == torch.float32 else 2e-2  # bfloat16 has eight bits
    for beams, padded in itertools.product((1, 2, 5), (False, True)):
        ours, stock = (layer.to(dtype) for layer in attentions(device))
        encoder = torch.randn(7, 3, 12, device=device, dtype=dtype)
        padding = torch.zeros(3, 7, dtype=torch.bool, device=device)
        if padded:
            padding[0, :6] = padding[2, :2] = True
        kept, state, stock_state = torch.tensor([0, 2], device=device), {}, {}

        def call(layer, query, key, mask, where):
            return layer(query, key, key, mask, where, need_weights=False, static_kv=True)[0]

        with torch.no_grad():
            query = torch.randn(1, 3, 16, device=device, dtype=dtype)
            call(ours, query, encoder, padding, state)  # once for each sentence
            for step in range(3):
                if step == 2:  # a sentence is finished
                    ours.reorder_incremental_state(state, kept)
                    encoder, padding, stock_state = encoder[:, kept], padding[kept], {}
                query = torch.randn(1, encoder.size(1) * beams, 16, device=device, dtype=dtype)
                repeated = encoder.repeat_interleave(beams, dim=1), padding.repeat_interleave(beams, dim=0)
                expected = call(stock, query.clone(), *repeated, stock_state)
                actual = call(ours, query.clone(), encoder, padding, state)
                torch.testing.assert_close(actual, expected, rtol=10 * tolerance, atol=tolerance)


def learned(layer, queries, keys, device, dtype=torch.float32, rounded=torch.float32):
    """The output for pairs of which two have padding, and the gradients of what is given and of the parameters.

    All numbers are first ``rounded``.
    """
    generator = torch.Generator().manual_seed(2)
    drawn = (torch.randn(*size, generator=generator) for size in ((queries, 3, 16), (keys, 3, 12)))
    query, encoder = (x.to(device, rounded).to(dtype).requires_grad_() for x in drawn)
    padding = torch.arange(keys, device=device) >= torch.tensor([[keys], [keys - 2], [1]], device=device)
    layer = layer.train().to(rounded).to(dtype)
    output = layer(query, encoder, encoder, padding, need_weights=False, static_kv=True)[0]
    output.square().sum().backward()
    return [output, *(each.grad for each in (query, encoder, *layer.parameters()))]


@pytest.mark.parametrize("device", DEVICES)
def test_long_pairs_learn_as_in_fairseqs_attention(device):
    for queries, keys in ((SHORT + 1, 61), (3, 5)):
        ours, stock = (learned(layer, queries, keys, device) for layer in attentions(device))
        torch.testing.assert_close(ours, stock, rtol=1e-3, atol=3e-3)
        assert torch.equal(ours[0], stock[0]) == (queries == 3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_long_pairs_in_half_precision_round_about_as_much_as_in_fairseqs_attention(dtype, device):
    results = [learned(layer, SHORT + 1, 61, device, dtype) for layer in attentions(device)]
    exact = learned(attentions(device)[1], SHORT + 1, 61, device, rounded=dtype)
    ours, stock = ([(x.float() - y).norm() for x, y in zip(each, exact)] for each in results)
    assert all(error < 3 * allowed for error, allowed in zip(ours, stock))


def test_the_weights_of_long_pairs_are_dropped():
    ours, _ = attentions()
    ours.train().dropout_module.p = 0.5
    query, encoder = torch.randn(SHORT + 1, 3, 16), torch.randn(61, 3, 12)
    first, second = (ours(query, encoder, encoder, need_weights=False, static_kv=True)[0] for _ in range(2))
    assert not torch.equal(first, second)
