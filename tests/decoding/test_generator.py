"""The fast search finds what fairseq's own search finds in the same model."""

import pytest
import torch

from fairseq_rope.architectures import FAMILIES
from fairseq_rope.decoding import incremental

from ..helpers import DEVICES
from .searching import CLOSE, EXACT, SEARCH, assert_same, batch, both, generator, lively

UNK = 3
PACKED = dict(rtol=1e-4, atol=5e-5)
"""As CLOSE, from copies of the weights, whose products add up in another order; the scores are sums over the steps."""


def assert_varied(found):
    """The case says something: translations of different lengths, each of different words."""
    best = [hypotheses[0]["tokens"].tolist() for hypotheses in found]
    assert len({tuple(tokens) for tokens in best}) > len(best) // 2
    assert len({len(h["tokens"]) for hypotheses in found for h in hypotheses}) > 2


DYNAMIC = dict(rope_scaling="dynamic", rope_scaling_factor=3.0, rope_original_length=3)
"""Which follows the length of each source."""


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("family, options", [*((family, {}) for family in FAMILIES), ("roformer", DYNAMIC)])
def test_hypotheses_and_scores_equal_fairseqs_for_every_encoding(family, options, device, fast_searches):
    model = lively(f"{family}_tiny", seed=1, **options).to(device)
    for packs in (True, False):
        actual, expected = both(model, batch(device=device), packs=packs, beam_size=4, max_len_b=15)
        assert_same(actual, expected, PACKED if packs else CLOSE)
        assert_varied(actual)
    assert len(fast_searches) == 2


def test_long_outputs_are_the_same_to_the_bit_where_only_the_ends_of_beams_are_copied(monkeypatch):
    model, found, real = lively(), [], incremental.tails
    for kind in (lambda *args: None, lambda *args: found.append(real(*args)) or found[-1]):
        monkeypatch.setattr(incremental, "tails", kind)
        actual, expected = both(model, batch(), beam_size=4, min_len=60, max_len_b=70)
        found.append(actual)
        assert_same(actual, expected, PACKED)
    assert_same(found[-1], found[0], EXACT)
    assert sum(value is not None for value in found[1:-1]) > 20


OPTIONS = {
    "beam 1": dict(beam_size=1),
    "beam 7": dict(beam_size=7),
    "length penalty 0.6": dict(beam_size=4, len_penalty=0.6),
    "length penalty 3": dict(beam_size=4, len_penalty=3),
    "unnormalised": dict(beam_size=4, normalize_scores=False),
    "at least 6": dict(beam_size=4, min_len=6),
    "nothing is long enough": dict(beam_size=4, min_len=0),
    "exactly 5": dict(beam_size=4, min_len=5, max_len_b=5),
    "cut": dict(beam_size=4, max_len_a=0.2, max_len_b=2),
    "only the end": dict(beam_size=3, max_len_b=0, min_len=0),
    "an absolute limit": dict(beam_size=3, max_len=4),
    "no unknown words": dict(beam_size=4, unk_penalty=1000.0),
    "more unknown words": dict(beam_size=4, unk_penalty=-2.5),
    "hot": dict(beam_size=4, temperature=2.0),
    "cold": dict(beam_size=4, temperature=0.4),
    "suppressed": dict(beam_size=4, tokens_to_suppress=("w0", "w1", "w5", "w7", "w11", "w20")),
    "all but two suppressed": dict(beam_size=4, tokens_to_suppress=tuple(f"w{i}" for i in range(2, 36))),
    "another end": dict(beam_size=3, eos=9),
    "everything": dict(beam_size=5, len_penalty=0.8, unk_penalty=-1.0, min_len=2, temperature=1.3, max_len_a=1.1),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_of_the_search_equals_fairseqs(name, device, fast_searches):
    options = {"max_len_b": 12, **OPTIONS[name]}
    for seed, packs in ((0, True), (1, False)):
        model = lively(seed=seed).to(device)
        actual, expected = both(model, batch(device=device, seed=seed), packs=packs, **options)
        assert_same(actual, expected, PACKED if packs or device == "cuda" else CLOSE)
        assert all(hypotheses for hypotheses in actual)
        tokens = torch.cat([h["tokens"] for hypotheses in actual for h in hypotheses])
        if name == "more unknown words":
            assert UNK in tokens
        if name == "no unknown words":
            assert UNK not in tokens
    assert len(fast_searches) == 2


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype,digits", [(torch.float16, 4e-3), (torch.bfloat16, 2e-2)])
def test_half_precision_finds_translations_as_good(dtype, digits, device):
    """Ties and rounding may change which: the mean score of the best is fairseq's up to the precision."""
    model = lively().to(device, dtype)
    best = [[beam[0] for beam in found] for found in both(model, batch(device=device), beam_size=4, max_len_b=12)]
    mine, stock = (sum(float(hypothesis["score"]) for hypothesis in found) / len(found) for found in best)
    assert mine == pytest.approx(stock, rel=digits, abs=digits)
    assert {found[0]["positional_scores"].dtype for found in best} == {best[1][0]["positional_scores"].dtype}


def test_a_generator_that_is_used_again_gives_the_same_and_leaves_what_it_gave():
    model = lively()
    search = generator(model)
    first = search.generate([model], batch())
    kept = [[{name: value.clone() for name, value in h.items()} for h in hypotheses] for hypotheses in first]
    assert_same(search.generate([model], batch((2, 8), seed=30)), both(model, batch((2, 8), seed=30), **SEARCH)[1])
    assert_same(first, kept, EXACT)
    assert_same(search.generate([model], batch()), kept, EXACT)


def test_other_shapes_of_the_model_equal_fairseqs(fast_searches):
    projected = dict(decoder_output_dim=16, decoder_input_dim=24, activation_fn="gelu")
    for shape in (dict(decoder_normalize_before=True), dict(decoder_layers=1), projected):
        for packs in (True, False):
            assert_same(*both(lively(**shape), batch(), packs=packs, beam_size=3, max_len_b=9))
    assert len(fast_searches) == 6
