"""The papers' equations for one query ``i`` and one key ``j``, which ``PAPER_CASES`` puts together.

Most are logits; ``value`` and ``shaw_value`` are what the query gets from the key, ``sinusoidal`` and ``learned`` what
is added to an embedding, and ``linear`` is the output for all keys.
"""

import math
from dataclasses import dataclass
from typing import Any, Set

import torch
import torch.nn.functional as F

H, D = 4, 8  # heads and head dimension of side_config()


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


def value(at, i, j):
    return at.v[j]


def plain(at, i, j):
    return at.q[i] @ at.k[j] / math.sqrt(D)


def rotation_matrix(position, dim=D, base=10000.0):
    """R of eq. 7, written out: 2x2 blocks on the diagonal."""
    matrix = torch.zeros(dim, dim, dtype=torch.double)
    for m in range(dim // 2):
        angle = position * base ** (-2 * m / dim)
        block = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        matrix[2 * m : 2 * m + 2, 2 * m : 2 * m + 2] = block
    return matrix


def rope(at, i, j):
    """RoFormer eq. 8: ``(R_i q)^T (R_j k) / sqrt(d)``."""
    return (rotation_matrix(i).float() @ at.q[i]) @ (rotation_matrix(j).float() @ at.k[j]) / math.sqrt(D)


def pope(at, i, j):
    """Gopalakrishnan et al. 2025: magnitudes of content, phases of position, and one learned shift of each channel."""
    theta = torch.tensor([at.options.base ** (-c / D) for c in range(D)])
    magnitudes = torch.log1p(at.q[i].exp()) * torch.log1p(at.k[j].exp())
    return (magnitudes * torch.cos((j - i) * theta + at.encoding.delta[at.head])).sum() / math.sqrt(D)


def sinusoidal(encoding, position):
    """Vaswani et al. 2017, section 3.5, in tensor2tensor's layout: from fairseq's first position, with its exponents,
    or from 0 with the paper's."""
    channels = encoding.config.embed_dim
    each, first = channels // 2 - 1, encoding.config.padding_idx + 1
    if encoding.options.formula == "paper":
        each, first = channels / 2, 0
    angles = [(position + first) / 10000 ** (m / each) for m in range(channels // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles])


def learned(encoding, position):
    return encoding.weight[position]


def _table(table, at, i, j):
    k = at.options.clip
    return table[at.head if at.options.per_head else 0, max(-k, min(k, j - i)) + k]


def shaw(at, i, j):
    """Shaw et al. 2018, eq. 4."""
    return at.q[i] @ (at.k[j] + _table(at.layer.keys, at, i, j)) / math.sqrt(D)


def shaw_value(at, i, j):
    """Shaw et al. 2018, eq. 3."""
    return at.v[j] if at.options.no_values else at.v[j] + _table(at.layer.values, at, i, j)


def _bucket(at, i, j):
    """Raffel et al. 2020, section 2.1, one pair at a time."""
    buckets, farthest, first, n = at.options.buckets, at.options.max_distance, 0, i - j
    if not at.encoding.config.causal:
        buckets //= 2
        first, n = (buckets if j > i else 0), abs(n)
    n, exact = max(n, 0), buckets // 2
    if n < exact:
        return first + n
    place = math.log(n / exact) / math.log(farthest / exact) * (buckets - exact)
    return first + min(exact + int(place), buckets - 1)


def t5(at, i, j):
    return plain(at, i, j) + at.encoding.table[_bucket(at, i, j), at.head]


def xl(at, i, j):
    """Dai et al. 2019, section 3.3: the four terms (a) to (d)."""
    channels = at.encoding.config.embed_dim
    angles = torch.tensor([(i - j) / 10000 ** (2 * m / channels) for m in range(channels // 2)])
    relative = at.split(at.layer.weight @ torch.cat([angles.sin(), angles.cos()]))
    u, v = at.encoding.u[at.head], at.encoding.v[at.head]
    return (at.q[i] @ at.k[j] + at.q[i] @ relative + u @ at.k[j] + v @ relative) / math.sqrt(D)


def deberta(at, i, j):
    """He et al. 2021, eqs. 3 and 4."""
    k = at.options.span

    def place(distance):
        return 0 if distance <= -k else 2 * k - 1 if distance >= k else distance + k

    table, source = at.encoding.table, at.attention if at.options.share_projections else at.layer
    relative_key = at.split(source.k_proj(table[place(i - j)]))
    relative_query = at.split(source.q_proj(table[place(j - i)]))
    return (at.q[i] @ at.k[j] + at.q[i] @ relative_key + at.k[j] @ relative_query) / math.sqrt(3 * D)


def alibi(at, i, j):
    """Press et al. 2022, section 3, and its two forms for an encoder."""
    if at.options.split_directions and not at.encoding.config.causal:
        if (j > i) if at.head < H // 2 else (j < i):
            return torch.tensor(-math.inf)
        slope = 2 ** (-8 * (at.head % (H // 2) + 1) / (H // 2))
    else:
        slope = 2 ** (-8 * (at.head + 1) / H)
    return plain(at, i, j) - slope * abs(i - j)


def kerple(at, i, j):
    """Chi et al. 2022, the logarithmic kernel; each direction of an encoder for itself."""
    direction = int(j > i and not at.encoding.config.causal)
    r1, r2 = at.encoding.rates[:, direction, at.head].abs() + 0.01
    return plain(at, i, j) - r1 * torch.log(1 + r2 * abs(i - j))


def fire(at, i, j):
    """Li et al. 2024, section 3; in an encoder with the sign of ``i - j``, and the larger position in place of i."""
    encoding = at.encoding

    def psi(x):
        return torch.log(encoding.c.abs() * x + 1)

    threshold = encoding.multiplier.abs() * at.options.threshold
    x = math.copysign(1, i - j) * psi(abs(i - j)) / psi(max(threshold, i, j))
    hidden = [max(w * x + b, torch.zeros(())) for w, b in zip(encoding.weight, encoding.bias)]
    return plain(at, i, j) + sum(h * out for h, out in zip(hidden, encoding.output[:, at.head]))


def _normed(at, row):
    return F.layer_norm(at.encoding.table[row], (32,), at.encoding.norm.weight, at.encoding.norm.bias)


def untied(at, i, j):
    """Ke et al. 2021, eqs. 7, 9 and 10, with the thetas of the authors' code."""

    def correlation(row, other):
        q, k = at.encoding.q_proj(_normed(at, row)), at.encoding.k_proj(_normed(at, other))
        return at.split(q) @ at.split(k) / math.sqrt(2 * D)

    reset = not at.options.no_reset
    if reset and i in at.special:
        position = correlation(0, 0)
    elif reset and j in at.special:
        position = correlation(1, 1)
    else:
        position = correlation(2 + i, 2 + j)
    return at.q[i] @ at.k[j] / math.sqrt(2 * D) + position


def untied_relative(at, i, j):
    """Ke et al. 2021, eqs. 8 to 10."""
    row = _bucket(at, i, j)
    if not at.options.no_reset:
        row = at.options.buckets + 1 if i in at.special else at.options.buckets if j in at.special else row
    return untied(at, i, j) + at.encoding.relative[row, at.head]


def untied_words_and_positions(at, i, j):
    """Ke et al. 2021, section 4.3: the four terms of BERT-A^d."""
    words = at.q[i], at.k[j]
    positions = at.split(at.encoding.q_proj(_normed(at, i))), at.split(at.encoding.k_proj(_normed(at, j)))
    return sum(q @ k for q in (words[0], positions[0]) for k in (words[1], positions[1])) / math.sqrt(4 * D)


def linear(at, i, keys, rotated=True):
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
