"""Relative positions: buckets, slopes, clipping, memory, and the options that are refused."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fairseq_rope.attention import PositionalMultiheadAttention
from fairseq_rope.positions import POSITIONS
from fairseq_rope.positions.alibi import slopes
from fairseq_rope.positions.relative import distance_rows, distances, products_with_rows, t5_buckets

from ..helpers import DEVICES, build_with, decoder_input, randomised, sentences, stack, steps


class LargestTensor(TorchDispatchMode):
    """Records the number of elements of the largest tensor that any operation makes."""

    numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        memory = [x.untyped_storage().nbytes() // x.element_size() for x in tree_leaves(out) if torch.is_tensor(x)]
        self.numel = max([self.numel, *memory])
        return out


def largest_tensor(attention, length, batch=1, **kwargs):
    """Elements of the largest tensor of a forward and backward pass of ``attention`` over ``length`` steps."""
    q, k, v = torch.randn(3, batch, attention.num_heads, length, attention.head_dim).requires_grad_().unbind()
    with LargestTensor() as mode:
        context = attention.encoding.prepare(steps(range(length)), steps(range(length)))
        arguments = dict(key_padding_mask=None, incremental_state=None, attn_mask=None, need_weights=False)
        out, _ = attention.attend(q, k, v, context=context, **{**arguments, **kwargs})
        out.sum().backward()
    return mode.numel


@pytest.mark.parametrize("per_head", [False, True])
def test_shaws_attention_makes_no_tensor_of_queries_times_keys_times_channels(per_head):
    encoding = POSITIONS["shaw"](stack(), POSITIONS["shaw"].Options(per_head=per_head))
    attention = PositionalMultiheadAttention(32, 4, encoding=encoding)
    batch, length = 3, 70
    pairs = batch * 4 * length * length
    assert largest_tensor(attention, length, batch, causal=False) <= pairs  # not even T x S x D, which is less


@pytest.mark.parametrize("batch", [1, 50])
@pytest.mark.parametrize("bias", [False, True])
def test_a_step_of_decoding_has_the_products_of_many_queries(batch, bias):
    """One sentence and many take two ways."""
    q, rows, projection = torch.randn(batch, 4, 3, 8), torch.randn(20, 32), torch.nn.Linear(32, 32, bias=bias)
    expected = products_with_rows(q, rows, projection)
    steps = torch.cat([products_with_rows(step, rows, projection) for step in q.split(1, dim=2)], dim=2)
    torch.testing.assert_close(steps, expected, atol=1e-5, rtol=1e-5)


def test_shaw_without_values_takes_the_fast_kernel():
    for no_values in (False, True):
        encoding = POSITIONS["shaw"](stack(), POSITIONS["shaw"].Options(no_values=no_values))
        assert encoding.needs_weights != no_values


@pytest.mark.parametrize("encoding", ["shaw", "deberta"])
def test_beyond_the_clipping_distance_all_are_alike(encoding):
    option = {"shaw": "clip", "deberta": "span"}[encoding]
    cls = POSITIONS[encoding]
    encoding = randomised(cls(stack(), cls.Options(**{option: 3})))
    layer = randomised(encoding.build_layer(None))
    q, k = torch.randn(1, 4, 1, 8).expand(1, 4, 12, 8), torch.randn(1, 4, 1, 8).expand(1, 4, 12, 8)
    bias = encoding.logit_bias(q, k, layer, **encoding.prepare(steps(range(12)), steps(range(12))))[0]
    for distance in (3, 4, 11):
        assert torch.allclose(bias.diagonal(distance, 1, 2), bias[:, 0, 3, None], atol=1e-5)
        assert torch.allclose(bias.diagonal(-distance, 1, 2), bias[:, 3, 0, None], atol=1e-5)
    assert (bias[:, 0, 3] - bias[:, 0, 2]).abs().min() > 1e-4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sinusoids_of_far_distances_are_rounded_once(dtype):
    """Angles in the dtype itself would be off by more than one at 4,000 tokens."""
    exact, half = (POSITIONS["xl"](stack(), None).to(kind) for kind in (torch.double, dtype))
    places = steps(range(4000))
    expected, actual = (e.prepare(places.last(), places)["sinusoids"] for e in (exact, half))
    assert actual.dtype == dtype and (actual.double() - expected).abs().max() <= torch.finfo(dtype).eps


def test_dropped_weights_are_dropped_for_shaws_values_too():
    """With everything dropped nothing is left, and with zero values the output is that of the relative values."""
    encoding = randomised(POSITIONS["shaw"](stack(), POSITIONS["shaw"].Options()))
    attention = randomised(PositionalMultiheadAttention(32, 4, encoding=encoding, dropout=1.0))
    q, v = torch.randn(1, 4, 5, 8), torch.zeros(1, 4, 5, 8)
    arguments = dict(key_padding_mask=None, incremental_state=None, attn_mask=None, causal=False, need_weights=False)
    context = encoding.prepare(steps(range(5)), steps(range(5)))
    assert torch.equal(attention.train().attend(q, q, v, context=context, **arguments)[0], v)
    assert attention.eval().attend(q, q, v, context=context, **arguments)[0].abs().min() > 0


INITIAL_STD = {  # of the authors' code, by the name of the parameter; docstrings say where from
    "tupe_a": {"table": 0.02, "q_proj.weight": 0.02, "k_proj.weight": 0.02, "q_proj.bias": 0, "k_proj.bias": 0},
    "tupe_r": {"relative": 0.02},
    "t5": {"table": 512**-0.5},
    "xl": {"u": 0.02, "v": 0.02},
    "deberta": {"table": 0.02},
    "learned": {"weight": 512**-0.5},
}
INITIAL_STD_OF_LAYER = {
    "shaw": {"keys": (2 / (33 + 64)) ** 0.5, "values": (2 / (33 + 64)) ** 0.5},
    "xl": {"weight": 0.02},
    "deberta": {"k_proj.weight": 0.02, "q_proj.weight": 0.02},
}


def test_initial_values():
    torch.manual_seed(0)
    base = stack(embed_dim=512, num_heads=8, max_positions=1024)
    for expected, per_layer in ((INITIAL_STD, False), (INITIAL_STD_OF_LAYER, True)):
        for name, stds in expected.items():
            encoding = POSITIONS[name](base, POSITIONS[name].Options())
            parameters = dict((encoding.build_layer(None) if per_layer else encoding).named_parameters())
            for parameter, std in stds.items():
                values = parameters[parameter].detach()
                allowed = 5 * std / values.numel() ** 0.5  # five standard errors and more
                assert abs(values.std() - std) <= allowed and abs(values.mean()) <= allowed, (name, parameter)


def test_distance_rows_hold_every_distance_once():
    for query, key in ((range(5), range(5)), ((7,), range(8)), (range(3, 6), range(6))):
        rows, row = distance_rows(steps(query), steps(key))
        expected = torch.tensor([[[j - i for j in key] for i in query]])
        assert torch.equal(rows[row[:, 0]], expected) and torch.equal(distances(steps(query), steps(key)), expected)
        assert rows.diff().eq(1).all() and len(rows) == len(query) + len(key) - 1


def test_buckets_as_in_the_paper():
    """32 buckets, 128 tokens: 8 exact ones per direction, then logarithmic; unidirectional, 16 exact ones."""
    distance = torch.arange(-200, 201)
    both, past = t5_buckets(distance, True, 32, 128), t5_buckets(distance, False, 32, 128)
    earlier, later, causal = both[:200].flip(0), both[201:], past[:200].flip(0)  # distances 1 to 200
    assert both[200] == past[200] == 0 and (past[201:] == 0).all() and torch.equal(later, earlier + 16)
    assert earlier[:7].tolist() == list(range(1, 8)) and causal[:15].tolist() == list(range(1, 16))
    # the last bucket begins at 8 * 16^(7/8) = 90.5 and 16 * 8^(15/16) = 112.4 tokens
    assert earlier[89:91].tolist() == [14, 15] and causal[111:113].tolist() == [30, 31]
    assert all(x.diff().min() >= 0 and x.unique().numel() == x.max() for x in (earlier, causal))


@pytest.mark.parametrize("encoding", ["t5", "tupe_r"])
def test_gradients_of_buckets_add_up_in_fp32(encoding):
    """Thousands of pairs share a row, and bfloat16 stops to count at 256."""
    length = 128
    encoding = POSITIONS[encoding](stack(max_positions=length), POSITIONS[encoding].Options())
    parameter = encoding.table if hasattr(encoding, "table") else encoding.relative
    shares = torch.randn(1, 1, length, length) + 1
    places = steps(range(length))
    gradients = []
    for dtype in (torch.float, torch.bfloat16):
        encoding.to(dtype)
        bias = encoding.prepare(places, places)["bias"]
        gradients.append(torch.autograd.grad((bias.float() * shares).sum(), parameter)[0].float())
    assert float((gradients[0] - gradients[1]).norm() / gradients[0].norm()) < 1e-2


def test_slopes_as_published():
    assert slopes(8).tolist() == [2**-n for n in range(1, 9)]
    assert slopes(16).tolist() == pytest.approx([2 ** (-n / 2) for n in range(1, 17)])
    # 12 heads: those of 8, then every other one of 16
    expected = [*(2**-n for n in range(1, 9)), *(2 ** (-n / 2) for n in (1, 3, 5, 7))]
    assert slopes(12).tolist() == pytest.approx(expected)


def test_splitting_directions_shows_each_half_of_the_heads_one_side():
    encoding = POSITIONS["alibi"](stack(), POSITIONS["alibi"].Options(split_directions=True))
    seen = encoding.prepare(steps(range(5)), steps(range(5)))["bias"][0].isfinite()
    assert torch.equal(seen[:2], torch.ones(2, 5, 5).tril().bool())
    assert torch.equal(seen[2:], torch.ones(2, 5, 5).triu().bool())
    model = build_with("alibi", alibi_split_directions=True)
    assert model(sentences(2, 6), None, decoder_input(sentences(2, 5)))[0].isfinite().all()


@pytest.mark.parametrize(
    "encoding,options,message",
    [
        ("shaw", dict(shaw_clip=0), "--shaw-clip must be at least 1 and at most 65536, not 0"),
        ("t5", dict(t5_buckets=6), "--t5-buckets must be a multiple of 4, at least 4 and at most 65536, not 6"),
        ("t5", dict(t5_max_distance=16), "--t5-max-distance must be above 16, half of --t5-buckets, not 16"),
        ("tupe_r", dict(tupe_buckets=0), "--tupe-buckets must be a multiple of 4"),
        ("tupe_a", dict(tupe_buckets=8), "--tupe-buckets belongs to the encoding tupe_r, which neither side uses"),
        ("deberta", dict(deberta_span=0), "--deberta-span must be at least 1 and at most 65536, not 0"),
        (
            "alibi",
            dict(alibi_split_directions=True, encoder_attention_heads=1),
            "--alibi-split-directions needs an even number of heads, not 1",
        ),
        (
            "none",
            dict(decoder_position="alibi", alibi_split_directions=True),
            "--alibi-split-directions belongs to the encoding alibi, which the encoder does not use",
        ),
        ("tupe_a", dict(max_source_positions=-5), "--max-source-positions must be at least 1, not -5"),
        ("learned", dict(max_target_positions=0), "--max-target-positions must be at least 1, not 0"),
        ("rope", dict(encoder_attention_heads=0), "--encoder-attention-heads must be at least 1, not 0"),
        (
            "sinusoidal",
            dict(encoder_embed_dim=2, decoder_embed_dim=2, encoder_attention_heads=1, decoder_attention_heads=1),
            "sinusoids need an --encoder-embed-dim of at least 4, not 2",
        ),
        (
            "xl",
            dict(encoder_embed_dim=33, decoder_embed_dim=33, encoder_attention_heads=3, decoder_attention_heads=3),
            "sinusoids need an even --encoder-embed-dim, not 33",
        ),
    ],
)
def test_wrong_options_are_refused_by_name(encoding, options, message):
    with pytest.raises(ValueError, match=message):
        build_with(encoding, **options)


class Sums(TorchDispatchMode):
    """Records the types in which operations add up at indices."""

    def __init__(self):
        super().__init__()
        self.types = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if "scatter_add" in func.__name__:
            self.types.add(out.dtype)
        return out


@pytest.mark.parametrize("device", DEVICES)
def test_the_far_keys_of_shaws_attention_add_up_in_fp32(device):
    """They share one row, in which a GPU's sums in bf16 would stall at a quarter; a CPU's would not."""
    length, encoding = 1024, POSITIONS["shaw"](stack(), POSITIONS["shaw"].Options())
    weights = torch.full((1, 4, 1, length), 1 / length)
    layer = randomised(encoding.build_layer(None)).to(device)
    query, key = (steps(torch.arange(*ends, device=device)) for ends in ((length - 1, length), (0, length)))
    row, q = encoding.prepare(query, key)["row"], torch.ones(1, 4, 1, 8, device=device)
    found = []
    for dtype in (torch.float, torch.bfloat16):
        layer = layer.to(dtype)
        with Sums() as sums:
            bias = encoding.logit_bias(q.to(dtype), None, layer, row=row)
            values = encoding.value_bias(weights.to(device, dtype), layer, row=row)
            found.append((values, *torch.autograd.grad(bias.mean(), [layer.keys])))
        assert sums.types == {torch.float}
    for precise, half in zip(*found):
        torch.testing.assert_close(half.float(), precise, rtol=0.05, atol=0.01 * float(precise.abs().max()))
