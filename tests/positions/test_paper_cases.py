"""Every encoding's logits against a naive loop written from its paper's equation."""

import math

import pytest
import torch

from fairseq_rope.positions import POSITIONS
from tests.helpers import ENCODINGS, FP32, stack
from tests.positions.test_rope import rotation_matrix

T = 6


def _plain(encoding, q, k, i, j):
    return q @ k / math.sqrt(len(q))


def _rope(encoding, q, k, i, j):
    """RoFormer eq. 8: ``(R_i q)^T (R_j k) / sqrt(d)``."""
    return (rotation_matrix(i).float() @ q) @ (rotation_matrix(j).float() @ k) / math.sqrt(len(q))


def _no_vector(encoding, position):
    return None


def _sinusoidal(encoding, position):
    """Vaswani et al. 2017, section 3.5, in tensor2tensor's layout, from fairseq's first position."""
    channels = encoding.stack.embed_dim
    steps = channels // 2 - 1
    angles = [(position + encoding.stack.padding_idx + 1) / 10000 ** (m / steps) for m in range(channels // 2)]
    return torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles])


def _learned(encoding, position):
    return encoding.weight[position]


PAPER_CASES = {  # name: (logit of query i and key j of one head, vector added to the embedding at a position)
    "none": (_plain, _no_vector),
    "sinusoidal": (_plain, _sinusoidal),
    "learned": (_plain, _learned),
    "rope": (_rope, _no_vector),
}


def test_every_encoding_has_a_case():
    assert set(PAPER_CASES) == set(POSITIONS)


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_logits_equal_the_papers_equation(name):
    torch.manual_seed(0)
    encoding = POSITIONS[name](stack(), POSITIONS[name].Options())
    logit, _ = PAPER_CASES[name]
    q, k = torch.randn(2, 4, T, 8), torch.randn(2, 4, T, 8)
    positions = torch.arange(T)[None]
    context = encoding.prepare(positions, positions)
    rotated_q, rotated_k = encoding.rotate(q, k, **context)
    logits = rotated_q @ rotated_k.transpose(-2, -1) * encoding.logit_scale(8)
    bias = encoding.logit_bias(rotated_q, rotated_k, **context)
    logits = logits if bias is None else logits + bias
    for b in range(2):
        for h in range(4):
            for i in range(T):
                for j in range(T):
                    expected = logit(encoding, q[b, h, i], k[b, h, j], i, j)
                    torch.testing.assert_close(logits[b, h, i, j], expected, **FP32)


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_added_vectors_equal_the_papers_equation(name):
    encoding = POSITIONS[name](stack(), POSITIONS[name].Options())
    _, vector = PAPER_CASES[name]
    positions = torch.tensor([[0, 1, 5], [0, 0, 63]])
    added = encoding.embed(positions)
    if vector(encoding, 0) is None:
        assert added is None
    else:
        for b, row in enumerate(positions.tolist()):
            for t, position in enumerate(row):
                torch.testing.assert_close(added[b, t], vector(encoding, position), **FP32)
