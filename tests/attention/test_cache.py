"""The cache of keys and values is a concatenation, and beams may share what they attend to in the encoder."""

import pytest
import torch
from fairseq.modules import MultiheadAttention

from fairseq_rope.attention import EncoderAttention
from fairseq_rope.attention.cache import ROOM, KeyValueCache

from ..helpers import DEVICES, randomised

H, D = 2, 3

ORDERS = {
    "none": {},
    "permuted": {2: [2, 0, 1]},
    "repeated": {1: [1, 1, 2], 4: [0, 0, 0]},
    "longer": {1: [0, 0, 1, 1, 2, 2]},
    "shorter": {3: [2], 5: [0]},
    "longer, then shorter, then longer": {1: [0, 1, 2, 0, 1, 2, 2], 4: [6, 1], 6: [1, 0, 0, 1, 1, 0, 1, 1, 0]},
    "every step": {step: [(step + i) % 3 for i in range(3)] for step in range(1, 90)},
}


def steps_of(batch, dtype, device, seed, length=1):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(batch, H, length, D, generator=generator).to(device, dtype) for _ in range(2)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("grad", [False, True])
def test_appending_equals_concatenation_also_after_reordering(name, grad, dtype, device):
    cache, expected = KeyValueCache(), None
    batch = 3
    with torch.set_grad_enabled(grad):
        for step in range(2 * ROOM + 9):  # beyond the room of the first buffer, and of the second
            if step in ORDERS[name]:
                order = torch.tensor(ORDERS[name][step], device=device)
                cache.reorder(order)
                expected, batch = [past[order] for past in expected], len(order)
            new = steps_of(batch, dtype, device, step)
            expected = new if expected is None else [torch.cat(pair, dim=2) for pair in zip(expected, new)]
            for actual, whole in zip(cache.append(*new), expected):
                assert actual.dtype == dtype and torch.equal(actual, whole), step


@pytest.mark.parametrize("grad", [False, True])
def test_several_orders_in_a_row_are_one_after_the_other(grad):
    cache, (k, v) = KeyValueCache(), steps_of(3, torch.float32, "cpu", 0)
    orders = [torch.tensor(order) for order in ([2, 1, 0], [0, 0, 1, 2], [3, 1])]
    with torch.set_grad_enabled(grad):
        cache.append(k, v)
        for order in orders:
            cache.reorder(order)
            k, v = k[order], v[order]
        new = steps_of(2, torch.float32, "cpu", 1)
        for actual, past, step in zip(cache.append(*new), (k, v), new):
            assert torch.equal(actual, torch.cat([past, step], dim=2))


def test_several_steps_at_once_equal_one_after_the_other():
    whole, parts = KeyValueCache(), KeyValueCache()
    k, v = steps_of(2, torch.float32, "cpu", 0, length=ROOM + 5)
    with torch.no_grad():
        expected = whole.append(k, v)
        for start, stop in ((0, 3), (3, 4), (4, ROOM + 1), (ROOM + 1, ROOM + 5)):
            actual = parts.append(k[:, :, start:stop], v[:, :, start:stop])
    assert all(torch.equal(a, b) for a, b in zip(actual, expected))


def test_gradients_flow_to_every_step_through_the_orders():
    cache, order = KeyValueCache(), torch.tensor([1, 1, 0])
    first, second = ([x.requires_grad_() for x in steps_of(batch, torch.float32, "cpu", 0)] for batch in (2, 3))
    cache.append(*first)
    cache.reorder(order)
    k, v = cache.append(*second)
    (k.sum() + 2 * v.sum()).backward()
    counts = torch.tensor([1.0, 2.0])[:, None, None, None]  # the second row went on twice
    for scale, (past, new) in zip((1, 2), zip(first, second)):
        assert torch.equal(past.grad, scale * counts.expand_as(past))
        assert torch.equal(new.grad, torch.full_like(new, scale))


def test_steps_with_and_without_gradients_may_follow_each_other():
    cache, expected, batch = KeyValueCache(), None, 4
    for step, grad in enumerate([False, False, False, True, True, False, False, True]):
        if step in (1, 2, 5):  # back and forth between the buffers, with fewer rows than the first
            batch -= step != 2
            order = torch.arange(batch).flip(0)
            cache.reorder(order)
            expected = [past[order] for past in expected]
        new = steps_of(batch, torch.float32, "cpu", step)
        expected = new if expected is None else [torch.cat(pair, dim=2) for pair in zip(expected, new)]
        with torch.set_grad_enabled(grad):
            assert all(torch.equal(*pair) for pair in zip(cache.append(*new), expected)), step


def attentions(device="cpu", **options):
    """This plugin's attention to the encoder and fairseq's, with the same weights."""
    torch.manual_seed(1)
    options = dict(encoder_decoder_attention=True, kdim=12, vdim=12, **options)
    ours = randomised(EncoderAttention(16, 4, **options)).eval().to(device)
    stock = MultiheadAttention(16, 4, **options).eval().to(device)
    stock.load_state_dict(ours.state_dict())
    return ours, stock


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("beams", [1, 2, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_beams_that_share_keys_equal_fairseqs_attention_with_repeated_keys(beams, padded, dtype, device):
    ours, stock = (layer.to(dtype) for layer in attentions(device))
    encoder = torch.randn(7, 3, 12, device=device, dtype=dtype)
    padding = torch.zeros(3, 7, dtype=torch.bool, device=device)
    if padded:
        padding[0, :6] = padding[2, :2] = True
    kept, state, stock_state = torch.tensor([0, 2], device=device), {}, {}

    def call(layer, query, key, mask, where):
        return layer(query, key, key, mask, where, need_weights=False, static_kv=True)[0]

    with torch.no_grad():
        call(ours, torch.randn(1, 3, 16, device=device, dtype=dtype), encoder, padding, state)  # once for each sentence
        for step in range(3):
            if step == 2:  # a sentence is finished
                ours.reorder_incremental_state(state, kept)
                encoder, padding, stock_state = encoder[:, kept], padding[kept], {}
            query = torch.randn(1, encoder.size(1) * beams, 16, device=device, dtype=dtype)
            repeated = encoder.repeat_interleave(beams, dim=1), padding.repeat_interleave(beams, dim=0)
            expected = call(stock, query.clone(), *repeated, stock_state)
            actual = call(ours, query.clone(), encoder, padding, state)
            tolerance = 1e-6 if dtype == torch.float32 else 2e-2  # bfloat16 has eight bits
            torch.testing.assert_close(actual, expected, rtol=10 * tolerance, atol=tolerance)


@pytest.mark.parametrize("need", ["need_weights", "need_head_weights"])
def test_weights_that_are_asked_for_are_fairseqs(need):
    ours, stock = attentions()
    query, encoder = torch.randn(1, 3, 16), torch.randn(7, 3, 12)
    options = {"need_weights": False, **{need: True}}
    for actual, expected in zip(*(layer(query, encoder, encoder, **options) for layer in (ours, stock))):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


def test_beams_that_share_keys_have_the_dropout_of_retain_dropout():
    layer, _ = attentions(dropout=0.5)
    layer.dropout_module.apply_during_inference = True
    state, encoder = {}, torch.randn(7, 2, 12)
    query = torch.randn(1, 6, 16)
    with torch.no_grad():
        layer(query[:, :2], encoder, encoder, None, state, need_weights=False, static_kv=True)
        first, second = (layer(query, encoder, encoder, None, state, False, static_kv=True)[0] for _ in range(2))
    assert not torch.equal(first, second)
