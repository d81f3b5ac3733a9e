"""Linear attention: the sums, their memory, the state of decoding, denominators near zero, what is refused."""

import pytest
import torch

from fairseq_rope.attention.linear import CHUNK, LinearAttention, causal_product
from fairseq_rope.positions.linear import LinearOptions, LinearRotaryEncoding, RandomFeatures

from ..helpers import FP32, build, build_with, decoder_input, sentences, stack, steps
from .test_relative import largest_tensor

B, H, D = 2, 4, 8
MAPS = ["elu", "favor"]


def attention(feature_map="elu", **kwargs):
    torch.manual_seed(0)
    encoding = LinearRotaryEncoding(stack(), LinearOptions(feature_map=feature_map))
    return LinearAttention(H * D, H, encoding=encoding, **kwargs).eval()


def attend(layer, q, k, v, key_padding_mask=None, causal=False, state=None, first=0):
    places = steps(range(first, first + q.size(2)))
    context = layer.encoding.prepare(places, places)
    return layer.attend(q, k, v, key_padding_mask, state, None, causal, need_weights=False, context=context)[0]


@pytest.mark.parametrize("length", [1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 5])
def test_the_chunked_causal_product_equals_the_masked_matrix(length):
    q, k, v = torch.randn(B, H, length, 6), torch.randn(B, H, length, 6), torch.randn(B, H, length, D)
    expected = (q.double() @ k.double().transpose(-2, -1)).tril() @ v.double()
    torch.testing.assert_close(causal_product(q, k, v).double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("feature_map", MAPS)
@pytest.mark.parametrize("causal", [False, True])
def test_padded_keys_are_in_neither_sum(feature_map, causal):
    layer, (q, k, v) = attention(feature_map), torch.randn(3, B, H, 7, D)
    padding = torch.zeros(B, 7, dtype=torch.bool)
    padding[:, 5:] = True
    masked = attend(layer, q, k, v, padding, causal)
    alone = attend(layer, *(x[:, :, :5] for x in (q, k, v)), causal=causal)
    torch.testing.assert_close(masked[:, :, :5], alone, **FP32)


@pytest.mark.parametrize("feature_map", MAPS)
@pytest.mark.parametrize("causal", [False, True])
def test_memory_grows_linearly_with_the_length(feature_map, causal):
    layer = attention(feature_map)
    sizes = [largest_tensor(layer, length, causal=causal) for length in (512, 2048)]
    assert sizes[1] <= 4 * sizes[0]
    assert sizes[1] < H * 2048 * 2048 / 8  # there is no matrix of queries times keys


@pytest.mark.parametrize("feature_map", MAPS)
def test_the_state_of_decoding_is_constant_in_length(feature_map):
    layer, (q, k, v) = attention(feature_map), torch.randn(3, B, H, 9, D)
    expected, state, shapes = attend(layer, q, k, v, causal=True), {}, set()
    for t in range(9):
        new = slice(t, t + 1)
        out = attend(layer, *(x[:, :, new] for x in (q, k, v)), state=state, first=t)
        torch.testing.assert_close(out, expected[:, :, new], **FP32)
        shapes.add(tuple(tuple(x.shape) for x in layer._get_input_buffer(state).values()))
    width = layer.encoding.width()
    assert shapes == {((B, H, width, D), (B, H, width))}


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


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_the_gradient_of_random_features_knows_their_maximum(scale):
    """The maximum of a query cancels but for the small number that is added behind it."""
    phi = RandomFeatures(20, D)

    def weights(q, k):
        features = []
        for x in (q, k):
            x = x * D**-0.25
            features.append(x @ phi.rows.double().t() - x.square().sum(-1, keepdim=True) / 2)
        highest = features[0].amax(-1, keepdim=True)
        products = ((features[0] - highest).exp() + 1e-6) @ (features[1].exp() + 1e-6).t()
        return products / products.sum(-1, keepdim=True)

    q, k = (scale * torch.randn(6, D, dtype=torch.double) for _ in range(2))
    numbers = torch.randn(6, 6, dtype=torch.double)
    expected = torch.autograd.functional.vjp(weights, (q, k), numbers)[1]
    q, k = (x.float().requires_grad_() for x in (q, k))
    products = phi(q, is_query=True) @ phi(k, is_query=False).t()
    (products / products.sum(-1, keepdim=True)).backward(numbers.float())
    for actual, gradient in zip((q.grad, k.grad), expected):
        torch.testing.assert_close(actual.double(), gradient, rtol=1e-3, atol=1e-4 * gradient.abs().max().item())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal", [False, True])
def test_sums_are_in_fp32_whatever_goes_in_and_under_autocast(dtype, causal):
    layer, (q, k, v) = attention(), torch.randn(3, B, H, 300, D).to(dtype)
    expected = attend(layer, q.float(), k.float(), v.float(), causal=causal)
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            actual = attend(layer, q, k, v, causal=causal)
        assert actual.dtype == dtype
        assert torch.equal(actual, expected.to(dtype))  # rounded once, at the end


def test_the_default_number_of_random_features_is_performers():
    widths = [
        LinearRotaryEncoding(stack(embed_dim=4 * dim), LinearOptions(feature_map="favor")).width() for dim in (32, 64)
    ]
    assert widths == [110, 266]  # d log d, made even


def test_random_features_approach_the_kernel_of_the_softmax():
    def error(features):
        torch.manual_seed(0)
        encoding = LinearRotaryEncoding(stack(), LinearOptions(feature_map="favor", features=features))
        phi = encoding.build_layer(None)
        q, k = torch.randn(2, 1, 1, 50, D) * 0.7
        weights = phi(q, is_query=True) @ phi(k, is_query=False).transpose(-2, -1)
        weights = weights / weights.sum(-1, keepdim=True)  # the maximum of a query cancels
        return (weights - (q @ k.transpose(-2, -1) / D**0.5).softmax(-1)).norm()

    assert error(40000) < error(400) / 5  # the square root of the number of features


def test_random_features_are_saved_but_not_trained():
    model, other = (build_with("linear", linear_feature_map="favor", seed=seed) for seed in (0, 1))
    frozen = [name for name, p in model.named_parameters() if not p.requires_grad]
    assert frozen == [f"{side}.layers.{n}.self_attn.position.rows" for side in ("encoder", "decoder") for n in (0, 1)]
    other.load_state_dict(model.state_dict())
    source, target = sentences(2, 7), decoder_input(sentences(2, 6))
    assert torch.equal(other(source, None, target)[0], model(source, None, target)[0])


def test_what_needs_weights_is_refused():
    layer, x = attention(), torch.randn(5, B, H * D)
    context = layer.encoding.prepare(steps(range(5)), steps(range(5)))
    with layer.at(context), pytest.raises(ValueError, match="linear attention forms no weights: ask for need_weights"):
        layer(x, need_weights=True)
    with pytest.raises(ValueError, match="leave --attention-dropout at 0"):
        build("roformer_linear_tiny", attention_dropout=0.1)


@pytest.mark.parametrize(
    "options,message",
    [
        (dict(linear_feature_map="relu"), "--linear-feature-map must be one of elu, favor, not 'relu'"),
        (dict(linear_features=64), "--linear-features needs --linear-feature-map favor"),
        (dict(linear_feature_map="favor", linear_features=7), "must be even, positive and at most 65536, not 7"),
        (dict(linear_feature_map="favor", linear_features=10**13), "even, positive and at most 65536, not 10"),
        (dict(attention_dropout=-0.1), "leave --attention-dropout at 0"),
        (dict(linear_dim=3), "--linear-dim must be even, not 3"),
        (dict(rope_base=3.0), "--rope-base belongs to the encoding rope, which neither side uses"),
    ],
)
def test_wrong_options_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        build_with("linear", **options)
