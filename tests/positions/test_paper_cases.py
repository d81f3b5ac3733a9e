"""Every encoding's attention against a naive loop written from its paper's equation."""

import itertools
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, Optional, Tuple

import pytest
import torch

from fairseq_rope.attention import SELF_ATTENTION
from fairseq_rope.positions import POSITIONS

from ..helpers import FP32, randomised, side_config, token_positions
from . import equations
from .equations import D, H

T, B = 9, 2


@dataclass
class Case:
    logit: Callable = None  # (head, i, j) -> logit of query i and key j
    value: Callable = equations.value  # (head, i, j) -> what query i gets from key j
    vector: Callable = lambda encoding, position: None  # (encoding, position) -> what is added to the embedding
    output: Optional[Callable] = None  # (head, i, keys) -> the output, where there is no softmax
    options: Tuple[Dict[str, Any], ...] = ({},)


FEW_BUCKETS = dict(buckets=8, max_distance=6)
FAVOR = dict(feature_map="favor", features=20)

PAPER_CASES = {
    "none": Case(equations.plain),
    "sinusoidal": Case(equations.plain, vector=equations.sinusoidal, options=({}, dict(formula="paper"))),
    "learned": Case(equations.plain, vector=equations.learned),
    "learned_t5": Case(equations.t5, vector=equations.learned, options=({}, FEW_BUCKETS)),
    "learned_untied": Case(equations.untied_words_and_positions),
    "rope": Case(equations.rope),
    "pope": Case(equations.pope, options=({}, dict(base=500.0))),
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
    "kerple": Case(equations.kerple),
    "fire": Case(equations.fire, options=({}, dict(threshold=3))),
    "linear": Case(output=equations.linear, options=({}, FAVOR)),
    "linear_learned": Case(
        output=partial(equations.linear, rotated=False), vector=equations.learned, options=({}, FAVOR)
    ),
}


def test_every_encoding_has_a_case():
    assert set(PAPER_CASES) == set(POSITIONS)


def step_by_step(attention, q, k, v, special):
    """The output of T steps of decoding, ``(B, H, T, D)``."""
    encoding, state, outputs = attention.encoding, {}, []
    for t in range(T):
        so_far = token_positions(range(t + 1), special)
        new = (x[:, :, t : t + 1] for x in (q, k, v))
        options = dict(incremental_state=state, causal=False, context=encoding.prepare(so_far.last(), so_far))
        outputs.append(attention.attend(*new, None, need_weights=False, **options)[0])
    return torch.cat(outputs, dim=2)


def at_once(attention, q, k, v, special):
    places = token_positions(range(T), special)
    context = attention.encoding.prepare(places, places)
    options = dict(incremental_state=None, causal=attention.encoding.config.causal, context=context)
    return attention.attend(q, k, v, None, need_weights=False, **options)[0]


@pytest.mark.parametrize(
    "name,options", [(name, options) for name in sorted(PAPER_CASES) for options in PAPER_CASES[name].options]
)
def test_the_attention_equals_the_papers_equation(name, options):
    """On both sides, and step by step."""
    for causal, ways in ((False, [at_once]), (True, [at_once, step_by_step])):
        torch.manual_seed(0)
        case, special = PAPER_CASES[name], (0, 4)
        encoding = randomised(POSITIONS[name](side_config(causal=causal), POSITIONS[name].Options(**options)))
        attention = randomised(SELF_ATTENTION[encoding.attention](H * D, H, encoding=encoding)).eval()
        q, k, v = torch.randn(3, B, H, T, D).unbind()
        expected = torch.empty_like(q)
        for b, h, i in itertools.product(range(B), range(H), range(T)):
            at = equations.Head(encoding, attention, h, q[b, h], k[b, h], v[b, h], set(special))
            keys = range(i + 1) if causal else range(T)
            if case.output:
                expected[b, h, i] = case.output(at, i, keys)
            else:
                weights = torch.stack([case.logit(at, i, j) for j in keys]).softmax(0)
                expected[b, h, i] = weights @ torch.stack([case.value(at, i, j) for j in keys])
        for way in ways:
            torch.testing.assert_close(way(attention, q, k, v, special), expected, **FP32)


def test_the_added_vectors_equal_the_papers_equation():
    positions = torch.tensor([[0, 1, 5], [0, 0, 63]])
    for name, case in PAPER_CASES.items():
        for options in case.options:
            encoding = POSITIONS[name](side_config(), POSITIONS[name].Options(**options))
            added = encoding.embed(positions)
            if case.vector(encoding, 0) is None:
                assert added is None
            else:
                expected = [torch.stack([case.vector(encoding, p) for p in row]) for row in positions.tolist()]
                torch.testing.assert_close(added.expand(2, -1, -1), torch.stack(expected), **FP32)
