"""Every encoding's attention against a naive loop written from its paper's equation."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, Optional, Tuple

import pytest
import torch

from fairseq_rope.attention import SELF_ATTENTION
from fairseq_rope.positions import POSITIONS

from ..helpers import ENCODINGS, FP32, randomised, stack, steps
from . import equations
from .equations import D, H

T, B = 9, 2


def no_vector(encoding, position):
    return None


@dataclass
class Case:
    logit: Callable = None  # (head, i, j) -> logit of query i and key j
    value: Callable = equations.value  # (head, i, j) -> what query i gets from key j
    vector: Callable = no_vector  # (encoding, position) -> what is added to the embedding
    output: Optional[Callable] = None  # (head, i, keys) -> the output, where there is no softmax
    options: Tuple[Dict[str, Any], ...] = ({},)


FEW_BUCKETS = dict(buckets=8, max_distance=6)
FAVOR = dict(feature_map="favor", features=20)

PAPER_CASES = {
    "none": Case(equations.plain),
    "sinusoidal": Case(equations.plain, vector=equations.sinusoidal),
    "learned": Case(equations.plain, vector=equations.learned),
    "learned_t5": Case(equations.t5, vector=equations.learned, options=({}, FEW_BUCKETS)),
    "learned_untied": Case(equations.untied_words_and_positions),
    "rope": Case(equations.rope),
    "tupe_a": Case(equations.untied, options=({}, dict(no_reset=True))),
    "tupe_r": Case(equations.untied_relative, options=(FEW_BUCKETS, dict(no_reset=True, **FEW_BUCKETS))),
    "shaw": Case(
        equations.shaw,
        equations.shaw_value,
        options=(dict(clip=3), dict(clip=2, per_head=True), dict(clip=99, no_values=True)),
    ),
    "t5": Case(equations.t5, options=({}, FEW_BUCKETS)),
    "xl": Case(equations.xl),
    "deberta": Case(equations.deberta, options=(dict(span=3), {}, dict(span=4, share_projections=True))),
    "alibi": Case(equations.alibi, options=({}, dict(split_directions=True))),
    "linear": Case(output=equations.linear, options=({}, FAVOR)),
    "linear_learned": Case(
        output=partial(equations.linear, rotated=False), vector=equations.learned, options=({}, FAVOR)
    ),
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
            at = equations.Head(encoding, attention, h, q[b, h], k[b, h], v[b, h], set(special))
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
