"""``torch.compile`` sees whole layers, and compiles again only for other lengths and batches.

Every encoding passed both tests when they were written. Three keep the suite short: each of the three reads numbers or
strides on a CPU when it is not compiled.
"""

from pathlib import Path

import pytest
import torch

from .helpers import build_felt, decoder_input, sentences

COMPILED = torch._dynamo
ONE_LAYER = dict(encoder_layers=1, decoder_layers=1)


def batch(sentence_count, length):
    return sentences(sentence_count, length + 2), None, decoder_input(sentences(sentence_count, length, seed=2))


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["rope", "tupe_r", "sinusoidal"])
def test_graphs_end_only_where_both_stacks_ask_for_padding(encoding):
    """fairseq's own stacks ask the same. Every layer, its attention and its dropout are in one graph."""
    COMPILED.reset()
    model = build_felt(encoding, **ONE_LAYER).train()
    explained = COMPILED.explain(model)(*batch(3, 7))
    ends = [Path(reason.user_stack[-1].filename).name for reason in explained.break_reasons]
    assert ends == ["stacks.py"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["tupe_r"])
def test_other_lengths_and_batches_are_compiled_once(encoding):
    COMPILED.reset()
    model = build_felt(encoding, **ONE_LAYER)
    compiled = torch.compile(model, backend="eager")
    with torch.no_grad():
        for shape in ((3, 7), (4, 9), (5, 6)):
            compiled(*batch(*shape))
        with COMPILED.config.patch(error_on_recompile=True):
            for shape in ((6, 8), (2, 12), (7, 5)):
                torch.testing.assert_close(compiled(*batch(*shape))[0], model(*batch(*shape))[0], rtol=1e-4, atol=1e-4)
