"""PositionalMultiheadAttention against fairseq's own, and what it refuses."""

import threading

import pytest
import torch
from fairseq.modules import MultiheadAttention

from fairseq_rope.attention import PositionalMultiheadAttention
from fairseq_rope.attention.kernels import SHORT
from fairseq_rope.positions import POSITIONS, PositionEncoding
from fairseq_rope.training.dropout import CpuDropout

from ..helpers import DEVICES, FP32, stack, steps

T, B, C, H = 7, 3, 32, 4

LENGTHS = pytest.mark.parametrize("length", [T, SHORT, SHORT + 1])
"""On a CPU, longer input has another way."""


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
    return PositionalMultiheadAttention(C, H, encoding=encoding(stack(), None), **kwargs).eval()


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


@LENGTHS
@pytest.mark.parametrize("kind", ["none", "padding", "causal", "causal and padding on the right"])
@pytest.mark.parametrize("need_weights", [False, True])
def test_without_encoding_it_equals_fairseqs_attention(kind, need_weights, length):
    ours = attention()
    stock = MultiheadAttention(C, H, self_attention=True).eval()
    stock.load_state_dict(ours.state_dict())  # the names are the same
    x = torch.randn(length, B, C)
    expected, expected_weights = stock(x, x, x, need_weights=need_weights, **masks(kind, length))
    with ours.at({}):
        actual, weights = ours(x, x, x, need_weights=need_weights, **masks(kind, length))
    torch.testing.assert_close(actual, expected, **FP32)
    if need_weights:
        torch.testing.assert_close(weights, expected_weights, **FP32)
    else:
        assert weights is None


@LENGTHS
@pytest.mark.parametrize("kind", ["none", "padding", "causal", "causal and padding on the right"])
def test_the_fast_kernel_equals_the_explicit_weights(kind, length):
    layer, x = attention(DistanceEncoding), torch.randn(length, B, C)
    places = steps(range(length))
    with layer.at(layer.encoding.prepare(places, places)):
        fast, _ = layer(x, need_weights=False, **masks(kind, length))
        explicit, weights = layer(x, need_head_weights=True, **masks(kind, length))
    torch.testing.assert_close(fast, explicit, **FP32)
    assert weights.shape == (H, B, length, length)


@LENGTHS
@pytest.mark.parametrize("encoding", [PositionEncoding, DistanceEncoding])
@pytest.mark.parametrize("need_weights", [False, True])
def test_causal_equals_a_mask_of_minus_infinity(encoding, need_weights, length):
    layer, x = attention(encoding), torch.randn(length, B, C)
    context = layer.encoding.prepare(steps(range(length)), steps(range(length)))
    padding = {"key_padding_mask": masks("padding", length)["key_padding_mask"].flip(1)}
    for others in ({}, padding):
        with layer.at(context):
            expected, _ = layer(x, need_weights=need_weights, **masks("causal", length), **others)
        with layer.at(context, causal=True):
            actual, _ = layer(x, need_weights=need_weights, **others)
        torch.testing.assert_close(actual, expected, **FP32)


def test_bias_and_scale_equal_the_written_formula():
    layer, x = attention(DistanceEncoding), torch.randn(T, 1, C)
    places = steps(range(T))
    with layer.at(layer.encoding.prepare(places, places)):
        _, weights = layer(x, need_head_weights=True)
    for h in range(H):
        rows = slice(h * C // H, (h + 1) * C // H)
        for i in range(T):
            q = layer.q_proj(x[i, 0])[rows]
            logits = torch.stack(
                [q @ layer.k_proj(x[j, 0])[rows] / (2 * C / H) ** 0.5 - 0.3 * abs(i - j) for j in range(T)]
            )
            torch.testing.assert_close(weights[h, 0, i], logits.softmax(0), **FP32)


@LENGTHS
@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("encoding", ["none", "shaw"])
def test_queries_that_see_only_padding_stay_finite(encoding, need_weights, length):
    """Also where the logits are as negative as the mask of a padded key is in fp16."""
    cls = POSITIONS[encoding]
    layer = PositionalMultiheadAttention(C, H, encoding=cls(stack(), cls.Options())).eval()
    q = 8 * torch.randn(B, H, length, C // H)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        context = layer.encoding.prepare(steps(range(length)), steps(range(length)))
        out, _ = layer.to(dtype).attend(
            q.to(dtype),
            -q.to(dtype),
            torch.randn(B, H, length, C // H).to(dtype),
            masks("padding", length)["key_padding_mask"],
            incremental_state=None,
            attn_mask=None,
            causal=True,
            need_weights=need_weights,
            context=context,
        )
        assert out.isfinite().all(), dtype


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("length", [1, SHORT, SHORT + 1, 63, 64, 65, 127, 128, 129, 192])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("left", [False, True])
def test_masks_of_every_length_have_finite_gradients_equal_to_those_of_explicit_weights(left, dtype, length, device):
    """Kernels for GPUs work in blocks of 64 or 128 keys."""
    layer = attention(DistanceEncoding).to(device, dtype)
    places = steps(torch.arange(length, device=device))
    padding = torch.zeros(2, length, dtype=torch.bool, device=device)
    padding[1, slice(length // 2) if left else slice(length // 2, None)] = length > 1
    x = torch.randn(length, 2, C, generator=torch.Generator().manual_seed(length)).to(device, dtype)
    results = []
    for need_weights in (False, True):
        query = x.clone().requires_grad_()
        with layer.at(layer.encoding.prepare(places, places), causal=True):
            out, _ = layer(query, key_padding_mask=padding, need_weights=need_weights)
        (gradient,) = torch.autograd.grad(out.square().sum(), query)
        assert out.isfinite().all() and gradient.isfinite().all()
        results.append((out, gradient))
    for fast, explicit in zip(*results):
        error = (fast - explicit).float().norm() / explicit.float().norm()
        assert error < (1e-5 if dtype == torch.float32 else 2e-2)  # bfloat16 has eight bits


def test_dropout_is_applied_in_training_only():
    layer, x = attention(dropout=0.5), torch.randn(T, B, C)
    with layer.at({}):
        assert torch.equal(layer(x, need_weights=False)[0], layer(x, need_weights=False)[0])
        layer.train()
        assert not torch.equal(layer(x, need_weights=False)[0], layer(x, need_weights=False)[0])


@pytest.mark.parametrize("kind", ["none", "padding", "causal", "itself causal"])
@pytest.mark.parametrize("encoding", [PositionEncoding, DistanceEncoding])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_are_dropped_as_explicit_ones_are(kind, encoding, dtype):
    """The same random numbers drop the same weights, in the output and in its gradients."""
    layer = attention(encoding, dropout=0.5).to(dtype).train()
    layer.dropout_module = CpuDropout(0.5)
    places, results = steps(range(T)), []
    for need_weights in (False, True):
        x = torch.randn(T, B, C, generator=torch.Generator().manual_seed(1)).to(dtype).requires_grad_()
        torch.manual_seed(2)
        given = masks("none" if kind == "itself causal" else kind)
        with layer.at(layer.encoding.prepare(places, places), causal=kind == "itself causal"):
            out, _ = layer(x, need_weights=need_weights, **given)
        results.append((out, *torch.autograd.grad(out.square().sum(), [x, layer.q_proj.weight, layer.v_proj.weight])))
    for dropped, explicit in zip(*results):
        error = (dropped - explicit).float().norm() / explicit.float().norm()
        assert error < (1e-5 if dtype == torch.float32 else 2e-2)  # bfloat16 has eight bits


@pytest.mark.parametrize("device", DEVICES)
def test_dropped_weights_have_the_expectation_of_all(device):
    layer, x = attention(dropout=0.3).to(device), torch.randn(T, 1, C, device=device)
    with layer.at({}), torch.no_grad():
        expected = layer(x, need_weights=False)[0]
        many = layer.train()(x.repeat(1, 4000, 1), need_weights=False)[0].mean(dim=1, keepdim=True)
    torch.testing.assert_close(many, expected, atol=0.02, rtol=0)


def test_the_encoding_is_not_registered_in_each_layer():
    layer = attention(DistanceEncoding)
    assert not [name for name, _ in layer.named_modules() if "position" in name]


@pytest.mark.parametrize("option", ["add_bias_kv", "add_zero_attn", "xformers_att_config"])
def test_unsupported_options_are_refused(option):
    with pytest.raises(ValueError, match=f"{option} cannot be combined with a position encoding"):
        attention(**{option: True})


def test_another_thread_may_use_the_layer_meanwhile():
    layer, x = attention(DistanceEncoding), torch.randn(T, B, C)
    near, far = (layer.encoding.prepare(places, places) for places in (steps(range(T)), steps(range(0, 5 * T, 5))))

    def output(context, meanwhile=lambda: None):
        with layer.at(context):
            meanwhile()
            return layer(x, need_weights=False)[0]

    def in_a_thread():
        thread = threading.Thread(target=output, args=[far])
        thread.start()
        thread.join()

    assert not torch.equal(output(near), output(far))
    assert torch.equal(output(near, in_a_thread), output(near))


def test_a_call_without_positions_is_refused():
    layer, x = attention(), torch.randn(T, B, C)
    for _ in range(2):
        with pytest.raises(ValueError, match="the positions are missing"):
            layer(x)
        with layer.at({}):
            layer(x)
