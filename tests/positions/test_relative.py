"""Relative positions: buckets, slopes, clipping, memory, and the options that are refused."""

import itertools

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fairseq_rope.attention import PositionalMultiheadAttention
from fairseq_rope.positions import POSITIONS
from fairseq_rope.positions.alibi import slopes
from fairseq_rope.positions.relative import products_with_rows, t5_buckets

from ..helpers import DEVICES, randomised, side_config, token_positions


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
        context = attention.encoding.prepare(token_positions(range(length)), token_positions(range(length)))
        arguments = dict(key_padding_mask=None, incremental_state=None, need_weights=False)
        out, _ = attention.attend(q, k, v, context=context, **{**arguments, **kwargs})
        out.sum().backward()
    return mode.numel


def test_shaws_attention_makes_no_tensor_of_queries_times_keys_times_channels():
    batch, length = 3, 70
    for per_head in (False, True):
        encoding = POSITIONS["shaw"](side_config(), POSITIONS["shaw"].Options(per_head=per_head))
        attention = PositionalMultiheadAttention(32, 4, encoding=encoding)
        pairs = batch * 4 * length * length
        assert largest_tensor(attention, length, batch, causal=False) <= pairs  # not even T x S x D, which is less


def test_a_step_of_decoding_has_the_products_of_many_queries():
    """One sentence and many take two ways."""
    for batch, bias in itertools.product((1, 50), (False, True)):
        q, rows, projection = torch.randn(batch, 4, 3, 8), torch.randn(20, 32), torch.nn.Linear(32, 32, bias=bias)
        expected = products_with_rows(q, rows, projection)
        steps = torch.cat([products_with_rows(step, rows, projection) for step in q.split(1, dim=2)], dim=2)
        torch.testing.assert_close(steps, expected, atol=1e-5, rtol=1e-5)


def test_dropped_weights_are_dropped_for_shaws_values_too():
    """With everything dropped nothing is left, and with zero values the output is that of the relative values."""
    encoding = randomised(POSITIONS["shaw"](side_config(), POSITIONS["shaw"].Options()))
    attention = randomised(PositionalMultiheadAttention(32, 4, encoding=encoding, dropout=1.0))
    q, v = torch.randn(1, 4, 5, 8), torch.zeros(1, 4, 5, 8)
    arguments = dict(key_padding_mask=None, incremental_state=None, causal=False, need_weights=False)
    context = encoding.prepare(token_positions(range(5)), token_positions(range(5)))
    assert torch.equal(attention.train().attend(q, q, v, context=context, **arguments)[0], v)
    assert attention.eval().attend(q, q, v, context=context, **arguments)[0].abs().min() > 0


INITIAL_STD = {  # of the authors' code; docstrings say where from
    ("tupe_a", "table"): 0.02,
    ("tupe_a", "q_proj.weight"): 0.02,
    ("tupe_r", "relative"): 0.02,
    ("t5", "table"): 512**-0.5,
    ("xl", "u"): 0.02,
    ("xl", "layer.weight"): 0.02,
    ("deberta", "table"): 0.02,
    ("deberta", "layer.k_proj.weight"): 0.02,
    ("learned", "weight"): 512**-0.5,
    ("shaw", "layer.keys"): (2 / (33 + 64)) ** 0.5,
    ("shaw", "layer.values"): (2 / (33 + 64)) ** 0.5,
}


def test_initial_values():
    torch.manual_seed(0)
    base = side_config(embed_dim=512, num_heads=8, max_positions=1024)
    for (name, parameter), std in INITIAL_STD.items():
        encoding = POSITIONS[name](base, POSITIONS[name].Options())
        encoding.layer = encoding.build_layer(None)
        values = encoding.get_parameter(parameter).detach()
        allowed = 5 * std / values.numel() ** 0.5  # five standard errors and more
        assert abs(values.std() - std) <= allowed and abs(values.mean()) <= allowed, (name, parameter)


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


@pytest.mark.parametrize("name", ["learned", "learned_untied", "tupe_a", "deberta", "t5"])
def test_gradients_of_rows_that_many_share_add_up_in_fp32(name):
    """The sentences, the pairs at one distance or those beyond the last; bfloat16 stops counting at 256."""
    length, sentences = (1500, 1) if name == "deberta" else (128, 1) if name == "t5" else (4, 600)
    encoding = randomised(POSITIONS[name](side_config(max_positions=length), POSITIONS[name].Options()))
    places = token_positions(range(length))
    positions = places.positions.repeat(sentences, 1)
    if sentences > 1:  # one begins with padding
        positions[-1] = (positions[-1] - 1).clamp(min=0)
    places = places._replace(positions=positions)
    gradients = []
    for dtype in (torch.float, torch.bfloat16):
        encoding.to(dtype)
        context = {**encoding.prepare(places, places), "embedded": encoding.embed(places.positions)}
        given = [x.float() for x in context.values() if x is not None and x.is_floating_point()]
        generator = torch.Generator().manual_seed(1)
        loss = sum((x * (1 + torch.rand(x.shape, generator=generator))).sum() for x in given)
        found = torch.autograd.grad(loss, list(encoding.parameters()))
        gradients.append(torch.cat([each.float().flatten() for each in found]))
    assert float((gradients[0] - gradients[1]).norm() / gradients[0].norm()) < 2e-2


def test_slopes_as_published():
    assert slopes(8).tolist() == [2**-n for n in range(1, 9)]
    assert slopes(16).tolist() == pytest.approx([2 ** (-n / 2) for n in range(1, 17)])
    # 12 heads: those of 8, then every other one of 16
    expected = [*(2**-n for n in range(1, 9)), *(2 ** (-n / 2) for n in (1, 3, 5, 7))]
    assert slopes(12).tolist() == pytest.approx(expected)


@pytest.mark.parametrize("device", DEVICES)
def test_the_far_keys_of_shaws_attention_add_up_in_fp32(device):
    """They share one row, in which a GPU's sums in bf16 would stall at a quarter; a CPU's would not."""
    length, encoding, types = 1024, POSITIONS["shaw"](side_config(), POSITIONS["shaw"].Options()), set()

    class Sums(TorchDispatchMode):
        def __torch_dispatch__(self, func, kinds, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            types.update([out.dtype] if "scatter_add" in func.__name__ else [])
            return out

    weights = torch.full((1, 4, 1, length), 1 / length)
    layer = randomised(encoding.build_layer(None)).to(device)
    query, key = (token_positions(torch.arange(*ends, device=device)) for ends in ((length - 1, length), (0, length)))
    row, q = encoding.prepare(query, key)["row"], torch.ones(1, 4, 1, 8, device=device)
    found = []
    for dtype in (torch.float, torch.bfloat16):
        layer = layer.to(dtype)
        with Sums():
            bias = encoding.logit_bias(q.to(dtype), None, layer, row=row)
            values = encoding.value_bias(weights.to(device), layer, row=row)
            found.append((values, *torch.autograd.grad(bias.mean(), [layer.keys])))
    assert types == {torch.float}
    for precise, half in zip(*found):
        torch.testing.assert_close(half.float(), precise, rtol=0.05, atol=0.01 * float(precise.abs().max()))
