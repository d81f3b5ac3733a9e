"""Linear attention: the sums, their memory, denominators near zero, what is refused."""

import pytest
import torch

from fairseq_rope.attention.linear import CHUNK, LinearAttention, causal_product
from fairseq_rope.positions.linear import LinearOptions, LinearRotaryEncoding

from ..helpers import FP32, KINDS, build_with, side_config, token_positions
from .test_relative import largest_tensor

B, H, D = 2, 4, 8
MAPS = ["elu", "favor"]


def attention(feature_map="elu", **kwargs):
    torch.manual_seed(0)
    encoding = LinearRotaryEncoding(side_config(), LinearOptions(feature_map=feature_map))
    return LinearAttention(H * D, H, encoding=encoding, **kwargs).eval()


def attend(layer, q, k, v, key_padding_mask=None, causal=False):
    places = token_positions(range(q.size(2)))
    context = layer.encoding.prepare(places, places)
    return layer.attend(q, k, v, key_padding_mask, None, causal, need_weights=False, context=context)[0]


def test_the_chunked_causal_product_equals_the_masked_matrix():
    for length in (1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5):
        q, k, v = torch.randn(B, H, length, 6), torch.randn(B, H, length, 6), torch.randn(B, H, length, D)
        expected = (q.double() @ k.double().transpose(-2, -1)).tril() @ v.double()
        torch.testing.assert_close(causal_product(q, k, v).double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_a_compiled_causal_product_has_the_same_gradients_at_any_length():
    torch._dynamo.reset()
    encoding = attention().encoding

    def product(q, k, v, context):
        return causal_product(*encoding.transform(q.exp(), k.exp(), **context), v)

    compiled = torch.compile(product, backend="aot_eager", dynamic=True)
    for length in (7, 9):
        context = encoding.prepare(*[token_positions(range(length))] * 2)
        heads = [torch.randn(B, length, H, D).transpose(1, 2).requires_grad_() for _ in range(3)]  # as projections are
        outputs = [compute(*heads, context) for compute in (compiled, product)]
        gradients = [torch.autograd.grad(out.square().sum(), heads) for out in outputs]
        torch.testing.assert_close(*outputs, **FP32)
        torch.testing.assert_close(*gradients, **FP32)


@pytest.mark.parametrize("feature_map", MAPS)
def test_memory_grows_linearly_with_the_length(feature_map):
    for causal in (False, True):
        sizes = [largest_tensor(attention(feature_map), length, causal=causal) for length in (512, 2048)]
        assert sizes[1] <= 4 * sizes[0]
        assert sizes[1] < H * 2048 * 2048 / 8  # there is no matrix of queries times keys


@pytest.mark.parametrize("feature_map", MAPS)
@pytest.mark.parametrize("causal", [False, True])
def test_vanishing_denominators_give_finite_outputs_and_gradients(feature_map, causal):
    layer = attention(feature_map)
    for value in (-1e4, -50.0, 1e4):
        q = torch.full((B, H, 7, D), value, requires_grad=True)
        k, v = torch.full((B, H, 7, D), value, requires_grad=True), torch.randn(B, H, 7, D, requires_grad=True)
        out = attend(layer, q, k, v, causal=causal)
        out.sum().backward()
        assert all(x.isfinite().all() for x in (out, q.grad, k.grad, v.grad)), value
    nothing_seen = torch.ones(B, 7, dtype=torch.bool)
    assert torch.equal(attend(layer, q, k, v, nothing_seen, causal), torch.zeros(B, H, 7, D))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_are_in_fp32_whatever_goes_in_and_under_autocast(dtype):
    layer, (q, k, v) = attention(), torch.randn(3, B, H, 300, D).to(dtype)
    for causal in (False, True):
        expected = attend(layer, q.float(), k.float(), v.float(), causal=causal)
        for enabled in (False, True):
            with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
                actual = attend(layer, q, k, v, causal=causal)
            assert torch.equal(actual, expected.to(dtype))  # rounded once, at the end


def test_the_default_number_of_random_features_is_performers():
    for dim, width in ((32, 110), (64, 266)):  # d log d, made even
        assert LinearRotaryEncoding(side_config(embed_dim=4 * dim), LinearOptions(feature_map="favor")).width() == width


def test_random_features_approach_the_kernel_of_the_softmax():
    def error(features):
        torch.manual_seed(0)
        encoding = LinearRotaryEncoding(side_config(), LinearOptions(feature_map="favor", features=features))
        phi = encoding.build_layer(None)
        q, k = torch.randn(2, 1, 1, 50, D) * 0.7
        weights = phi(q, is_query=True) @ phi(k, is_query=False).transpose(-2, -1)
        weights = weights / weights.sum(-1, keepdim=True)  # the maximum of a query cancels
        return (weights - (q @ k.transpose(-2, -1) / D**0.5).softmax(-1)).norm()

    assert error(40000) < error(400) / 5  # the square root of the number of features


def test_random_features_have_the_lengths_of_gaussian_vectors_in_every_kind_of_model():
    """The masked model's own initial values would be a hundredth of them. They are not trained."""
    for kind in KINDS:
        model = build_with("linear", kind, linear_feature_map="favor")
        rows = [parameter for parameter in model.parameters() if not parameter.requires_grad]
        assert len(rows) == (4 if kind == "translation" else 2)
        assert torch.cat(rows).square().sum(1).mean().item() == pytest.approx(D, rel=0.3)  # chi-squared of D
