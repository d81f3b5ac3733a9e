"""Every encoding's attention against a naive loop written from its paper's equation."""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, Optional, Set, Tuple

import pytest
import torch
import torch.nn.functional as F

from fairseq_rope.attention import SELF_ATTENTION
from fairseq_rope.positions import POSITIONS

from ..helpers import ENCODINGS, FP32, randomised, stack, steps
from .test_rope import rotation_matrix

T, B, H, D = 9, 2, 4, 8


@dataclass
class Head:
    """What a paper's equation may refer to: one head of one sentence."""

    encoding: Any
    attention: Any
    head: int
    q: torch.Tensor  # (T, D)
    k: torch.Tensor
    v: torch.Tensor
    special: Set[int]  # positions of </s>

    @property
    def layer(self):
        return self.attention.position

    @property
    def options(self):
        return self.encoding.options

    def split(self, x):
        """This head's channels of ``x`` ``(C,)``."""
        return x[self.head * D : (self.head + 1) * D]


def _value(at, i, j):
    return at.v[j]


def _no_vector(encoding, position):
    return None


@dataclass
class Case:
    logit: Callable = None  # (head, i, j) -> logit of query i and key j
    value: Callable = _value  # (head, i, j) -> what query i gets from key j
    vector: Callable = _no_vector  # (encoding, position) -> what is added to the embedding
    output: Optional[Callable] = None  # (head, i, keys) -> the output, where there is no softmax
    options: Tuple[Dict[str, Any], ...] = ({},)


def _plain(at, i, j):
    return at.q[i] @ at.k[j] / math.sqrt(D)


def _rope(at, i, j):
    """RoFormer eq. 8: ``(R_i q)^T (R_j k) / sqrt(d)``."""
    return (rotation_matrix(i).float() @ at.q[i]) @ (rotation_matrix(j).float() @ at.k[j]) / math.sqrt(D)


def _sinusoidal(encoding, position):
    """Vaswani et al. 2017, section 3.5, in tensor2tensor's layout, from fairseq's first position."""
    channels = encoding.stack.embed_dim
    each = channels // 2 - 1
    angles = [(position + encoding.stack.padding_idx + 1) / 10000 ** (m / each) for m in range(channels // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles])


def _learned(encoding, position):
    return encoding.weight[position]


def _clip(x, k):
    return max(-k, min(k, x))


def _table(table, at, i, j):
    k = at.options.clip
    return table[at.head if at.options.per_head else 0, _clip(j - i, k) + k]


def _shaw(at, i, j):
    """Shaw et al. 2018, eq. 4."""
    return at.q[i] @ (at.k[j] + _table(at.layer.keys, at, i, j)) / math.sqrt(D)


def _shaw_value(at, i, j):
    """Shaw et al. 2018, eq. 3."""
    return at.v[j] if at.options.no_values else at.v[j] + _table(at.layer.values, at, i, j)


def _bucket(at, i, j):
    """Raffel et al. 2020, section 2.1, one pair at a time."""
    buckets, farthest, first, n = at.options.buckets, at.options.max_distance, 0, i - j
    if not at.encoding.stack.causal:
        buckets //= 2
        first, n = (buckets if j > i else 0), abs(n)
    n, exact = max(n, 0), buckets // 2
    if n < exact:
        return first + n
    place = math.log(n / exact) / math.log(farthest / exact) * (buckets - exact)
    return first + min(exact + int(place), buckets - 1)


def _t5(at, i, j):
    return _plain(at, i, j) + at.encoding.table[_bucket(at, i, j), at.head]


def _xl(at, i, j):
    """Dai et al. 2019, section 3.3: the four terms (a) to (d)."""
    channels = at.encoding.stack.embed_dim
    angles = torch.tensor([(i - j) / 10000 ** (2 * m / channels) for m in range(channels // 2)])
    relative = at.split(at.layer.weight @ torch.cat([angles.sin(), angles.cos()]))
    u, v = at.encoding.u[at.head], at.encoding.v[at.head]
    return (at.q[i] @ at.k[j] + at.q[i] @ relative + u @ at.k[j] + v @ relative) / math.sqrt(D)


def _deberta(at, i, j):
    """He et al. 2021, eqs. 3 and 4."""
    k = at.options.span

    def place(distance):
        return 0 if distance <= -k else 2 * k - 1 if distance >= k else distance + k

    table, source = at.encoding.table, at.attention if at.options.share_projections else at.layer
    relative_key = at.split(source.k_proj(table[place(i - j)]))
    relative_query = at.split(source.q_proj(table[place(j - i)]))
    return (at.q[i] @ at.k[j] + at.q[i] @ relative_key + at.k[j] @ relative_query) / math.sqrt(3 * D)


def _alibi(at, i, j):
    """Press et al. 2022, section 3, and its two forms for an encoder."""
    if at.options.split_directions and not at.encoding.stack.causal:
        if (j > i) if at.head < H // 2 else (j < i):
            return torch.tensor(-math.inf)
        slope = 2 ** (-8 * (at.head % (H // 2) + 1) / (H // 2))
    else:
        slope = 2 ** (-8 * (at.head + 1) / H)
    return _plain(at, i, j) - slope * abs(i - j)


def _untied(at, i, j):
    """Ke et al. 2021, eqs. 7, 9 and 10, with the thetas of the authors' code."""

    def correlation(row, other):
        p = [
            F.layer_norm(at.encoding.table[n], (32,), at.encoding.norm.weight, at.encoding.norm.bias)
            for n in (row, other)
        ]
        return at.split(at.encoding.q_proj(p[0])) @ at.split(at.encoding.k_proj(p[1])) / math.sqrt(2 * D)

    reset = not at.options.no_reset
    if reset and i in at.special:
        position = correlation(0, 0)
    elif reset and j in at.special:
        position = correlation(1, 1)
    else:
        position = correlation(2 + i, 2 + j)
    return at.q[i] @ at.k[j] / math.sqrt(2 * D) + position


def _untied_relative(at, i, j):
    """Ke et al. 2021, eqs. 8 to 10."""
    row = _bucket(at, i, j)
    if not at.options.no_reset:
        row = at.options.buckets + 1 if i in at.special else at.options.buckets if j in at.special else row
    return _untied(at, i, j) + at.encoding.relative[row, at.head]


def _untied_words_and_positions(at, i, j):
    """Ke et al. 2021, section 4.3: the four terms of BERT-A^d."""

    def vector(project, position):
        p = F.layer_norm(at.encoding.table[position], (32,), at.encoding.norm.weight, at.encoding.norm.bias)
        return at.split(project(p))

    words = at.q[i], at.k[j]
    positions = vector(at.encoding.q_proj, i), vector(at.encoding.k_proj, j)
    return sum(q @ k for q in (words[0], positions[0]) for k in (words[1], positions[1])) / math.sqrt(4 * D)


def _linear(at, i, keys, rotated=True):
    """RoFormer eq. 11: the numerator is rotated, the denominator is not."""

    def phi(x, is_query):
        if at.options.feature_map == "elu":
            return torch.where(x > 0, x + 1, x.exp())
        x, rows = x / D**0.25, at.layer.rows
        exponents = rows @ x - x @ x / 2
        return ((exponents - (exponents.max() if is_query else 0)).exp() + 1e-6) / math.sqrt(len(rows))

    numerator, denominator = torch.zeros(D), torch.zeros(())
    for j in keys:
        phi_q, phi_k = phi(at.q[i], True), phi(at.k[j], False)
        matrix_i, matrix_j = (rotation_matrix(n if rotated else 0, dim=len(phi_q)).float() for n in (i, j))
        numerator = numerator + (matrix_i @ phi_q) @ (matrix_j @ phi_k) * at.v[j]
        denominator = denominator + phi_q @ phi_k
    return numerator / denominator


FEW_BUCKETS = dict(buckets=8, max_distance=6)
FAVOR = dict(feature_map="favor", features=20)

PAPER_CASES = {
    "none": Case(_plain),
    "sinusoidal": Case(_plain, vector=_sinusoidal),
    "learned": Case(_plain, vector=_learned),
    "learned_t5": Case(_t5, vector=_learned, options=({}, FEW_BUCKETS)),
    "learned_untied": Case(_untied_words_and_positions),
    "rope": Case(_rope),
    "tupe_a": Case(_untied, options=({}, dict(no_reset=True))),
    "tupe_r": Case(_untied_relative, options=(FEW_BUCKETS, dict(no_reset=True, **FEW_BUCKETS))),
    "shaw": Case(
        _shaw, _shaw_value, options=(dict(clip=3), dict(clip=2, per_head=True), dict(clip=99, no_values=True))
    ),
    "t5": Case(_t5, options=({}, FEW_BUCKETS)),
    "xl": Case(_xl),
    "deberta": Case(_deberta, options=(dict(span=3), {}, dict(span=4, share_projections=True))),
    "alibi": Case(_alibi, options=({}, dict(split_directions=True))),
    "linear": Case(output=_linear, options=({}, FAVOR)),
    "linear_learned": Case(output=partial(_linear, rotated=False), vector=_learned, options=({}, FAVOR)),
}


def test_every_encoding_has_a_case():
    assert set(PAPER_CASES) == set(POSITIONS)


@pytest.mark.parametrize("side", ["encoder", "decoder", "step"])
@pytest.mark.parametrize(
    "name,options", [(name, options) for name in sorted(PAPER_CASES) for options in PAPER_CASES[name].options]
)
def test_the_attention_equals_the_papers_equation(name, options, side):
    torch.manual_seed(0)
    case, causal, special = PAPER_CASES[name], side != "encoder", (0, 4)
    encoding = randomised(POSITIONS[name](stack(causal=causal), POSITIONS[name].Options(**options)))
    attention = SELF_ATTENTION[encoding.attention]
    attention = randomised(attention(H * D, H, encoding=encoding)).eval()
    q, k, v = torch.randn(3, B, H, T, D).unbind()
    key = steps(range(T), special)
    arguments = dict(key_padding_mask=None, attn_mask=None, need_weights=False)
    if side == "step":
        state, outputs = {}, []
        for t in range(T):
            new, so_far = slice(t, t + 1), steps(range(t + 1), special)
            context = encoding.prepare(so_far.last(), so_far)
            outputs.append(
                attention.attend(
                    *(x[:, :, new] for x in (q, k, v)),
                    incremental_state=state,
                    causal=False,
                    context=context,
                    **arguments,
                )[0]
            )
        out = torch.cat(outputs, dim=2)
    else:
        context = encoding.prepare(key, key)
        out, _ = attention.attend(q, k, v, incremental_state=None, causal=causal, context=context, **arguments)
    for b in range(B):
        for h in range(H):
            at = Head(encoding, attention, h, q[b, h], k[b, h], v[b, h], set(special))
            for i in range(T):
                keys = range(i + 1) if causal else range(T)
                if case.output:
                    expected = case.output(at, i, keys)
                else:
                    weights = torch.stack([case.logit(at, i, j) for j in keys]).softmax(0)
                    expected = weights @ torch.stack([case.value(at, i, j) for j in keys])
                torch.testing.assert_close(out[b, h, i], expected, **FP32)


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_added_vectors_equal_the_papers_equation(name):
    encoding = POSITIONS[name](stack(), POSITIONS[name].Options())
    vector = PAPER_CASES[name].vector
    positions = torch.tensor([[0, 1, 5], [0, 0, 63]])
    added = encoding.embed(positions)
    if vector(encoding, 0) is None:
        assert added is None
    else:
        for b, row in enumerate(positions.tolist()):
            for t, position in enumerate(row):
                torch.testing.assert_close(added[b, t], vector(encoding, position), **FP32)
