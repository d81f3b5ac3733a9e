"""PositionalMultiheadAttention against fairseq's own, and against explicit weights; the masks that it merges."""

import threading

import pytest
import torch
import torch.nn.functional as F
from fairseq.modules import MultiheadAttention

from fairseq_rope import products
from fairseq_rope.attention import PositionalMultiheadAttention
from fairseq_rope.attention.kernels import SHORT, scaled_dot_product_attention
from fairseq_rope.attention.masks import merge_masks
from fairseq_rope.positions import PositionEncoding
from fairseq_rope.products import FEW, multiplies_in_fp32
from fairseq_rope.training.dropout import CpuDropout

from ..helpers import DEVICES, FP32, side_config, token_positions

T, B, C, H = 7, 3, 32, 4

LENGTHS = pytest.mark.parametrize("length", [T, FEW + 1, SHORT + 1])
"""On a CPU, longer input has other ways."""

MASKS = ("none", "padding", "causal", "causal and padding on the right")
ERROR = {torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}
"""Of a norm; bfloat16 has eight bits, fp16 eleven."""


class DistanceEncoding(PositionEncoding):
    """A test-only encoding that uses every logit hook: a bias by distance, and a scale of its own."""

    def prepare(self, query, key):
        distance = query.positions[:, :, None] - key.positions[:, None, :]
        return {"bias": -0.3 * distance[:, None].abs().float()}

    def logit_scale(self, head_dim):
        return (2 * head_dim) ** -0.5

    def logit_bias(self, q, k, layer, **context):
        return context["bias"].type_as(q)


def attention(encoding=PositionEncoding, **kwargs):
    torch.manual_seed(3)
    return PositionalMultiheadAttention(C, H, encoding=encoding(side_config(), None), **kwargs).eval()


def context_of(layer, length, device="cpu"):
    places = token_positions(torch.arange(length, device=device))
    return layer.encoding.prepare(places, places)


def masks(kind, length=T):
    causal = torch.full((length, length), float("-inf")).triu(1)
    left = torch.zeros(B, length, dtype=torch.bool)
    left[1, :3] = left[2, :1] = True
    return {
        "none": {},
        "padding": {"key_padding_mask": left},
        "causal": {"attn_mask": causal},
        "causal and padding on the right": {"attn_mask": causal, "key_padding_mask": left.flip(1)},
    }[kind]


def assert_near(results, others, dtype):
    for one, other in zip(results, others):
        assert (one - other).float().norm() < ERROR[dtype] * other.float().norm()


@LENGTHS
def test_without_encoding_it_equals_fairseqs_attention(length):
    ours, stock = attention(), MultiheadAttention(C, H, self_attention=True).eval()
    stock.load_state_dict(ours.state_dict())  # the names are the same
    x = torch.randn(length, B, C)
    for kind in MASKS:
        given = masks(kind, length)
        expected, expected_weights = stock(x, x, x, need_weights=True, **given)
        causal = given.pop("attn_mask", None) is not None
        with ours.at({}, causal):
            fast, none = ours(x, x, x, need_weights=False, **given)
            explicit, weights = ours(x, x, x, need_weights=True, **given)
        assert none is None
        for actual, wanted in ((fast, expected), (explicit, expected), (weights, expected_weights)):
            torch.testing.assert_close(actual, wanted, **FP32, msg=kind)


def test_a_call_within_a_call_leaves_the_positions_of_the_outer_one():
    layer, x = attention(DistanceEncoding), torch.randn(T, B, C)
    context = context_of(layer, T)
    with layer.at(context):
        expected = layer(x)[0]
        with layer.at({"bias": 2 * context["bias"]}):
            assert not torch.equal(layer(x)[0], expected)
        assert torch.equal(layer(x)[0], expected)


def test_a_mask_of_pairs_is_not_ignored():
    layer, x = attention(), torch.randn(T, B, C)
    with layer.at({}), pytest.raises(ValueError, match="causal"):
        layer(x, attn_mask=masks("causal")["attn_mask"])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ERROR)
def test_masks_of_every_length_have_finite_gradients_equal_to_those_of_explicit_weights(dtype, device):
    """Kernels for GPUs work in blocks of 64 or 128 keys. One sentence is padding alone, and is finite.

    In fp16 and with 192 keys, cuDNN's is not: a query behind the right padding sees only keys at distances from 96 on.
    """
    layer = attention(DistanceEncoding).to(device, dtype)
    blocks = (63, 64, 65, 127, 128, 129, 192) if device == "cuda" else ()
    for length in (1, SHORT, SHORT + 1, *blocks):
        for half in (slice(length // 2), slice(length // 2, None)):  # padding on the left, and on the right
            padding = torch.zeros(3, length, dtype=torch.bool, device=device)
            padding[1, half], padding[2] = length > 1, True
            x = torch.randn(length, 3, C, generator=torch.Generator().manual_seed(length)).to(device, dtype)
            results = []
            for need_weights in (False, True):
                query = x.clone().requires_grad_()
                with layer.at(context_of(layer, length, device), causal=True):
                    out, _ = layer(query, key_padding_mask=padding, need_weights=need_weights)
                (gradient,) = torch.autograd.grad(out.square().sum(), query)
                assert out.isfinite().all() and gradient.isfinite().all()
                results.append((out[:, :2], gradient[:, :2]))
            assert_near(*results, dtype)


@LENGTHS
def test_dropout_is_applied_in_training_and_where_it_is_retained(length):
    x = torch.randn(length, B, C)
    for need_weights in (False, True):
        layer = attention(dropout=0.5)

        def is_random(layer=layer, need_weights=need_weights):
            with layer.at({}):
                first, second = (layer(x, need_weights=need_weights)[0] for _ in range(2))
            return not torch.equal(first, second)

        assert not is_random()
        assert layer.train() and is_random()
        layer.eval().dropout_module.apply_during_inference = True
        assert is_random()
        with torch.no_grad():
            assert is_random()


@LENGTHS
@pytest.mark.parametrize("instructions", [False, True])
def test_half_precision_learns_in_fp32_also_under_autocast(length, instructions, monkeypatch):
    """Rounded once, at the end; with instructions for bf16, short texts learn in bf16."""
    q, k, v = torch.randn(3, B, H, length, C // H).bfloat16().requires_grad_().unbind()
    mask, dropout = torch.randn(length, length).bfloat16(), CpuDropout(0.0)
    monkeypatch.setattr(products, "has_instructions", lambda dtype: instructions)
    precise = scaled_dot_product_attention(*(x.float() for x in (q, k, v)), mask.float(), False, 0.3, dropout)
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            out = scaled_dot_product_attention(q, k, v, mask, False, 0.3, dropout)
        if multiplies_in_fp32(v) or length > SHORT:
            assert torch.equal(out, precise.bfloat16())
        assert_near([out], [precise], torch.bfloat16)


@pytest.mark.parametrize("dtype", ERROR)
def test_a_mask_that_learns_has_the_gradients_of_pytorchs_own_attention(dtype):
    q, k, v = torch.randn(3, B, H, SHORT + 1, C // H).to(dtype)
    mask = torch.randn(1, H, SHORT + 1, SHORT + 1).to(dtype).requires_grad_()
    out = scaled_dot_product_attention(q, k, v, mask, False, 0.3, CpuDropout(0.0))
    expected = F.scaled_dot_product_attention(*(x.float() for x in (q, k, v, mask)), scale=0.3)
    gradients = [torch.autograd.grad(each.square().sum(), mask)[0] for each in (out, expected)]
    assert_near((out, gradients[0]), (expected, gradients[1]), dtype)


@pytest.mark.parametrize("encoding", [PositionEncoding, DistanceEncoding])
@pytest.mark.parametrize("dtype", ERROR)
def test_weights_are_dropped_as_explicit_ones_are(encoding, dtype):
    """The same random numbers drop the same weights, in the output and in its gradients."""
    layer = attention(encoding, dropout=0.5).to(dtype).train()
    layer.dropout_module = CpuDropout(0.5)
    for kind, causal in (("none", False), ("padding", False), ("none", True), ("padding", True)):
        results = []
        for need_weights in (False, True):
            x = torch.randn(T, B, C, generator=torch.Generator().manual_seed(1)).to(dtype).requires_grad_()
            torch.manual_seed(2)
            with layer.at(context_of(layer, T), causal=causal):
                out, _ = layer(x, need_weights=need_weights, **masks(kind))
            learned = [x, layer.q_proj.weight, layer.v_proj.weight]
            results.append((out, *torch.autograd.grad(out.square().sum(), learned)))
        assert_near(*results, dtype)


def test_another_thread_may_use_the_layer_meanwhile():
    layer, x = attention(DistanceEncoding), torch.randn(T, B, C)
    near, far = (
        layer.encoding.prepare(places, places)
        for places in (token_positions(range(T)), token_positions(range(0, 5 * T, 5)))
    )

    entered, done = threading.Event(), threading.Event()

    def stay_at_far():
        with layer.at(far):
            entered.set()
            done.wait()

    with layer.at(far):
        other = layer(x, need_weights=False)[0]
    with layer.at(near):
        expected = layer(x, need_weights=False)[0]
        thread = threading.Thread(target=stay_at_far, daemon=True)
        thread.start()
        assert entered.wait(60)
        found = layer(x, need_weights=False)[0]
    done.set()
    thread.join()
    assert torch.equal(found, expected) and not torch.equal(found, other)


PADDING = torch.tensor([[True, True, False], [False, True, True]])
HIDDEN = torch.full((3, 3), float("-inf")).triu(1)


def test_no_query_sees_padding_alone():
    """Not even one in the padding on the left of a decoder: it sees itself."""
    mask = merge_masks(None, True, PADDING, torch.zeros(2, H, 3, 8))
    seen = mask[:, 0].eq(0).int().tolist()
    assert seen == [[[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[1, 0, 0]] * 3]


def test_no_query_sees_padding_alone_where_the_bias_hides_keys():
    """Heads that see only earlier keys, or only later ones: a padded query sees itself, on both sides of a sentence."""
    bias = torch.stack([HIDDEN, HIDDEN.t()])[None].repeat(1, H // 2, 1, 1)
    mask = merge_masks(bias, False, PADDING, torch.zeros(2, H, 3, 8), hides_keys=True)
    assert (mask > torch.finfo(torch.float32).min).any(-1).all()
    assert torch.equal(mask[0, :, 2].eq(0), torch.tensor([[False, False, True]]).expand(H, 3)), "a word sees no padding"


def test_the_mask_of_a_padded_key_is_finite():
    padding = torch.ones(1, 3, dtype=torch.bool)
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        q = torch.zeros(1, H, 3, 8, dtype=dtype)
        mask = merge_masks(None, False, padding, q)
        assert mask.dtype == dtype and mask.isfinite().all()
        assert merge_masks(torch.zeros(1, H, 3, 3), False, padding, q).isfinite().all()  # a bias in fp32
