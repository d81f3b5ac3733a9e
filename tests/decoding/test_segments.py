"""Texts in segments: each segment of a translation attends to its own of the source alone, and there are as many."""

import itertools

import pytest
import torch

from fairseq_rope.decoding.generator import FastSequenceGenerator
from fairseq_rope.decoding.segments import UNLIKELY

from ..helpers import EOS, PAD, task
from .searching import batch, generator, lively
from .test_task import build_generator

SEPARATORS = (7, 9)  # of the source, of the translation
NUMBERS = [2, 0, 4, 1]  # of separators in each source


def in_segments():
    """Sources with separators, padded on the left."""
    sample = batch((12, 3, 14, 6))
    source = sample["net_input"]["src_tokens"]
    source[source.eq(SEPARATORS[0])] += 1
    for row, number in zip(source, NUMBERS):
        row[[-3 - 2 * i for i in range(number)]] = SEPARATORS[0]
    return sample


def separating(arch="roformer_tiny", seed=0):
    """A model to which a separator is as likely as the end."""
    model = lively(arch, seed)
    with torch.no_grad():
        model.decoder.output_projection.weight[SEPARATORS[1]] = model.decoder.output_projection.weight[EOS]
    return model


def search(model, sample, **options):
    chosen = generator(model, **{"max_len_b": 60, **options})
    chosen.separators = SEPARATORS
    return chosen.generate([model], sample)


def attention_by_segment(attention, source, tokens):
    """Attention to the encoder, token by token, from its definition: query ``t`` sees the keys of its segment."""

    def forward(query, key, *_, **options):
        heads = [project(x).unflatten(-1, (attention.num_heads, -1)) for project, x in (
            (attention.q_proj, query), (attention.k_proj, key), (attention.v_proj, key)
        )]  # fmt: skip
        out = torch.zeros_like(query)
        for row, (words, written) in enumerate(zip(source, tokens)):
            for t in range(len(written)):
                number = int(written[: t + 1].eq(SEPARATORS[1]).sum())
                seen = [s for s in range(len(words)) if words[s] != PAD
                        and int(words[:s].eq(SEPARATORS[0]).sum()) == number]  # fmt: skip
                q, k, v = heads[0][t, row], heads[1][seen, row], heads[2][seen, row]
                weights = (torch.einsum("hd,shd->hs", q, k) * attention.scaling).softmax(-1)
                out[t, row] = torch.einsum("hs,shd->hd", weights, v).flatten()
        return attention.out_proj(out), None

    return forward


@pytest.mark.parametrize("arch", ["roformer_tiny", "transformer_shaw_tiny", "tupe_r_tiny"])
def test_scores_are_those_of_a_decoder_that_sees_the_segments_alone(arch, monkeypatch):
    model, sample = separating(arch), in_segments()
    found = search(model, sample, beam_size=3)
    for row, hypotheses in enumerate(found):
        one = {name: x[row : row + 1] for name, x in sample["net_input"].items()}
        for hypothesis in hypotheses:
            tokens = hypothesis["tokens"]
            before = torch.cat([tokens.new_tensor([EOS]), tokens[:-1]])[None]
            for layer in model.decoder.layers:
                forward = attention_by_segment(layer.encoder_attn, one["src_tokens"], before)
                monkeypatch.setattr(layer.encoder_attn, "forward", forward)
            with torch.no_grad():
                logits = model.decoder(before, model.encoder(**one))[0][0]
            monkeypatch.undo()
            for t, row_of in enumerate(logits):
                ended = int(before[0, : t + 1].eq(SEPARATORS[1]).sum())
                row_of[EOS if ended < NUMBERS[row] else SEPARATORS[1]] -= UNLIKELY
            expected = logits.log_softmax(-1).gather(1, tokens[:, None])[:, 0]
            torch.testing.assert_close(hypothesis["positional_scores"], expected, rtol=1e-4, atol=1e-4)


def test_a_translation_ends_with_the_last_segment_or_is_cut():
    sample, complete = in_segments(), set()
    for seed, beam in itertools.product(range(4), (1, 4, 8)):
        for number, hypotheses in zip(NUMBERS, search(separating(seed=seed), sample, beam_size=beam)):
            assert len(hypotheses) == beam
            for hypothesis in hypotheses:
                segments = int(hypothesis["tokens"].eq(SEPARATORS[1]).sum())
                is_cut = hypothesis["score"] < -UNLIKELY / 100
                assert segments == number if not is_cut else segments < number and len(hypothesis["tokens"]) == 61
                complete |= set() if is_cut else {segments}
    assert complete == set(NUMBERS)


def test_what_knows_no_segments_is_refused():
    model, sample = lively(), in_segments()
    plain = generator(model)
    plain.separators, plain.packs_weights = SEPARATORS, False
    with pytest.raises(ValueError, match="--unpacked-weights"):
        plain.generate([model], sample)
    ensemble = FastSequenceGenerator([model, model], task().target_dictionary)
    ensemble.separators = SEPARATORS
    with pytest.raises(ValueError, match="--segment-separator is for plain beam search"):
        ensemble.generate([model, model], sample)
    for separator in ("<sep>", "</s>"):
        with pytest.raises(ValueError, match=f"dictionary has no token {separator}: train on documents"):
            build_generator(model, separator=separator)
    assert FastSequenceGenerator.can_align(model)
    for options in (dict(output_bias=True), dict(no_cross_attention=True)):
        assert not FastSequenceGenerator.can_align(lively(**options))
    with pytest.raises(ValueError, match="--print-alignment"):
        build_generator(model, separator="w3", print_alignment="soft")
    found = build_generator(model, separator="w3")
    assert found.separators == (7, 7)
